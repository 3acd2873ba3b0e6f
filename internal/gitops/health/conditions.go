package health

// byConditions is the rule for all other kinds: the conditions that most
// controllers write. It is nil if the object has none of them. Errors go first,
// then activity, then readiness: a controller may keep Ready from before while
// it reports that it is stalled.
func byConditions(o *object) *Status {
	if o.status == nil {
		return nil
	}
	if o.status.has("observedGeneration") && !o.observed() {
		return progressing(notObserved)
	}
	conditions := o.status.conditions()
	for _, kind := range []string{"Stalled", "Failed", "Degraded"} {
		if c, found := find(conditions, kind); found && c.status == "True" {
			return degraded("%s", c.explains(kind))
		}
	}
	if c, found := find(conditions, "Reconciling"); found && c.status == "True" {
		return progressing("%s", c.explains("Reconciling"))
	}
	for _, kind := range []string{"Ready", "Available", "Succeeded"} {
		c, found := find(conditions, kind)
		if !found {
			continue
		}
		switch {
		case c.observed != 0 && c.observed < o.generation:
			return progressing(notObserved)
		case c.status == "True":
			return healthy("%s", c.message)
		case c.status == "False" && kind == "Succeeded":
			return degraded("%s", c.explains(kind+" is "+c.status))
		}
		// An unmet condition may still become met. The deadline decides when it
		// does not.
		return progressing("%s", c.explains(kind+" is "+c.status))
	}
	return nil
}

// explains returns the message of a condition, or its reason, or else a given
// text.
func (c condition) explains(otherwise string) string {
	if text := c.text(); text != "" {
		return text
	}
	return otherwise
}
