package notify

import "slipway.dev/slipway/internal/gitops/notify/message"

// The triggers about what Argo CD does not have. They are there without a setting, and a
// setting of the same name goes before.
const (
	heldTrigger       = "on-held"
	rolledBackTrigger = "on-release-rolled-back"
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
	const revisions = `revision {{join ", " .app.status.held.revisions}}, and {{join ", " .app.status.held.target}} is held back: {{.app.status.held.message}}`
	s.Templates["app-held"] = "message: |\n  Application {{.app.metadata.name}} is held at " + revisions +
		"\nemail:\n  subject: Application {{.app.metadata.name}} is held.\n"
	s.Templates["app-release-rolled-back"] = "message: |\n  The release of application {{.app.metadata.name}} was rolled back to " + revisions +
		"\nemail:\n  subject: The release of application {{.app.metadata.name}} was rolled back.\n"
}
