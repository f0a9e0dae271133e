"""Result: values per query and their means, made once and never changed."""
