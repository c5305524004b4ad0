"""The decisions of the methods: module ``<name>`` has the function `decide` of that method."""
