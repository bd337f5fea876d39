"""Tables of answers: what ids and labels are the same, how logs are read, checked, described and saved."""
