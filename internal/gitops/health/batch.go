package health

// job follows Argo CD: a Job that was suspended and resumed counts as done,
// because its condition Suspended stays with the status False.
func job(o *object) *Status {
	var failed, suspend *condition
	done, message := false, ""
	for _, c := range o.status.conditions() {
		// Resumed Jobs keep the condition Suspended with the status False.
		if c.status == "False" && c.kind != "Suspended" {
			continue
		}
		switch c.kind {
		case "Failed":
			failed, done = &c, true
		case "Complete":
			message, done = c.message, true
		case "Suspended":
			message, done = c.message, true
			if c.status == "True" {
				suspend = &c
			}
		}
	}
	switch {
	case !done:
		return progressing("Waiting for the Job to complete")
	case failed != nil:
		return degraded("%s", failed.text())
	case suspend != nil:
		return suspended("%s", suspend.text())
	}
	return healthy("%s", message)
}

// cronJob is Degraded only if its last run failed. A run that is active or was
// never completed is no failure yet, as in Argo CD.
func cronJob(o *object) *Status {
	scheduled, succeeded := o.status.text("lastScheduleTime"), o.status.text("lastSuccessfulTime")
	switch {
	case o.spec.flag("suspend"):
		return healthy("CronJob is suspended")
	case o.status == nil:
		return progressing("Waiting for the CronJob to be seen by the controller")
	case scheduled == "":
		return healthy("CronJob was not scheduled yet")
	case succeeded == "":
		return healthy("CronJob has not completed yet")
	case len(o.status.list("active")) > 0:
		return healthy("The Job is running")
	case succeeded < scheduled: // both in UTC, and so in the order of text
		return degraded("The last run of the CronJob did not succeed")
	}
	return healthy("The last run of the CronJob succeeded")
}

// workflow follows the phase of a Workflow.
func workflow(o *object) *Status {
	message := o.status.text("message")
	switch o.status.text("phase") {
	case "", "Pending", "Running":
		return progressing("%s", message)
	case "Succeeded":
		return healthy("%s", message)
	case "Failed", "Error":
		return degraded("%s", message)
	}
	return unknown("%s", message)
}
