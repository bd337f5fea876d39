"""Plain, slow, obvious twins of the compiled methods: what the tests compare against."""
