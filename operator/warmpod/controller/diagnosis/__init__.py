"""What is wrong with pods and objects: each thing named once, with its reason and its remedy."""
