"""What all kinds of answers share: tables, estimators, names, files, checks and progress."""
