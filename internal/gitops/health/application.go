package health

import "slipway.dev/slipway/api/argo/v1alpha1"

// application is the health of an Application in an Application: that of its
// own status. One that was never compared is Progressing, so that a wave waits
// for it.
func application(o *object) *Status {
	code := Code(o.status.group("health").text("status"))
	if c, found := find(o.status.conditions(), v1alpha1.ConditionInvalidSpecError); found && code != v1alpha1.Healthy {
		return degraded("%s", c.text())
	}
	switch {
	case code == "":
		return progressing("Waiting for the first comparison with Git")
	case !known(code):
		return unknown("the health is %q", string(code))
	}
	return status(code, "%s", o.status.group("health").text("message"))
}
