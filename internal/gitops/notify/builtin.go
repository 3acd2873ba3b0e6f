package notify

import "slipway.dev/slipway/internal/gitops/notify/message"

// The triggers about what Argo CD does not have. They are there without a setting, and a
// setting of the same name goes before.
const (
	heldTrigger       = "on-held"
	rolledBackTrigger = "on-release-rolled-back"
	servedTrigger     = "on-route-served"
	certTrigger       = "on-certificate-problem"
)

// addBuiltin adds the triggers and templates that need no setting.
func (s *Settings) addBuiltin() {
	s.Triggers[heldTrigger] = []message.Condition{{
		Description: "Application is held at a revision. Triggered once per hold.",
		When:        "app.status.held != nil", OncePer: "app.status.held.heldAt", Send: []string{"app-held"},
	}}
	s.Triggers[rolledBackTrigger] = []message.Condition{{
		Description: "A release was rolled back by its traffic or its health. Triggered once per release.",
		When:        "app.status.held != nil and app.status.held.reason == 'ReleaseFailed'", OncePer: "app.status.held.heldAt",
		Send: []string{"app-release-rolled-back"},
	}}
	s.Triggers[servedTrigger] = []message.Condition{{
		Description: "Routes of the Application are live at every edge. Triggered once per set of routes.",
		When:        "len(edge.routes) > 0", OncePer: "join(edge.routes, ' ')", Send: []string{"app-route-served"},
	}}
	// Without oncePer: a certificate that was repaired and fails again is news.
	s.Triggers[certTrigger] = []message.Condition{{
		Description: "A certificate of a route expires soon, has expired, or is missing.",
		When:        "len(edge.problems) > 0", Send: []string{"app-certificate-problem"},
	}}
	s.Templates["app-route-served"] = "message: |\n  The routes of application {{.app.metadata.name}} are live: {{join \", \" .edge.routes}}" +
		"\nemail:\n  subject: The routes of application {{.app.metadata.name}} are live.\n"
	s.Templates["app-certificate-problem"] = "message: |\n  Application {{.app.metadata.name}} has a problem with certificates: {{join \"; \" .edge.problems}}" +
		"\nemail:\n  subject: Application {{.app.metadata.name}} has a problem with certificates.\n"
	const revisions = `revision {{join ", " .app.status.held.revisions}}, and {{join ", " .app.status.held.target}} is held back: {{.app.status.held.message}}`
	s.Templates["app-held"] = "message: |\n  Application {{.app.metadata.name}} is held at " + revisions +
		"\nemail:\n  subject: Application {{.app.metadata.name}} is held.\n"
	s.Templates["app-release-rolled-back"] = "message: |\n  The release of application {{.app.metadata.name}} was rolled back to " + revisions +
		"\nemail:\n  subject: The release of application {{.app.metadata.name}} was rolled back.\n"
}
