"""Trust: who may refer to what, whose signature an object has, who may call an activity, and what
everybody may see. Pure."""
