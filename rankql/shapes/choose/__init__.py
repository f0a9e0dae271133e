"""Choose one column for each role: by values only between several known names; expressions too."""
