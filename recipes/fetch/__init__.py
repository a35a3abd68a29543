"""Where the recipes' data comes from, one file per source."""
