"""The feature map: from rows of named values to the features of arms."""
