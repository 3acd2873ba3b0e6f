package message_test

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"slipway.dev/slipway/internal/gitops/notify/message"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
)

// catalog returns the triggers and templates of Argo CD's catalog, as it is published.
func catalog(t *testing.T) (triggers map[string][]message.Condition, templates map[string]string) {
	t.Helper()
	folder := programs.ModuleFolder(t, "github.com/argoproj/argo-cd/v3")
	text := must.Get(os.ReadFile(filepath.Join(folder, "notifications_catalog", "install.yaml")))(t)
	var published struct{ Data map[string]string }
	must.Do(t, yaml.Unmarshal(text, &published))
	triggers, templates = map[string][]message.Condition{}, map[string]string{}
	for key, value := range published.Data {
		kind, name, _ := strings.Cut(key, ".")
		switch kind {
		case "trigger":
			var conditions []message.Condition
			must.Do(t, yaml.UnmarshalStrict([]byte(value), &conditions))
			triggers[name] = conditions
		case "template":
			templates[name] = value
		default:
			t.Errorf("the catalog has the key %s", key)
		}
	}
	if len(triggers) != 8 || len(templates) != 8 {
		t.Fatalf("the catalog has %d triggers and %d templates", len(triggers), len(templates))
	}
	return triggers, templates
}

// application returns an Application as JSON, from YAML.
func application(t *testing.T, text string) json.RawMessage {
	t.Helper()
	return must.Get(yaml.YAMLToJSON([]byte(text)))(t)
}

const synced = `
metadata: {name: shop, namespace: argocd}
spec: {project: default, source: {repoURL: "https://git.example.com/team/shop.git"}}
status:
  sync: {status: Synced, revision: abc}
  health: {status: Healthy, lastTransitionTime: "2026-01-01T10:00:30Z"}
  operationState:
    phase: Succeeded
    startedAt: "2026-01-01T10:00:00Z"
    finishedAt: "2026-01-01T10:00:20Z"
    syncResult: {revision: abc}
`

// TestCatalogTriggers: each trigger of the catalog is met by the states that its
// description names, with the revision for oncePer.
func TestCatalogTriggers(t *testing.T) {
	triggers, _ := catalog(t)
	for name, one := range map[string]struct {
		app  string
		want map[string]string
	}{
		"new":    {`metadata: {name: shop}`, map[string]string{"on-created": "shop"}},
		"synced": {synced, map[string]string{"on-created": "shop", "on-deployed": "abc", "on-sync-succeeded": "abc"}},
		"degraded": {strings.Replace(synced, "Healthy", "Degraded", 1),
			map[string]string{"on-created": "shop", "on-health-degraded": "abc", "on-sync-succeeded": "abc"}},
		"failed":  {strings.Replace(synced, "phase: Succeeded", "phase: Failed", 1), map[string]string{"on-created": "shop", "on-sync-failed": "abc"}},
		"running": {strings.Replace(synced, "phase: Succeeded", "phase: Running", 1), map[string]string{"on-created": "shop", "on-sync-running": "abc"}},
		"unknown": {strings.Replace(synced, "status: Synced", "status: Unknown", 1), map[string]string{"on-created": "shop", "on-deployed": "abc", "on-sync-succeeded": "abc", "on-sync-status-unknown": "abc"}},
		"deleted": {strings.Replace(synced, "namespace: argocd", "deletionTimestamp: \"2026-01-01T11:00:00Z\"", 1),
			map[string]string{"on-created": "shop", "on-deployed": "abc", "on-sync-succeeded": "abc", "on-deleted": "shop"}},
		"recovered":      {strings.Replace(synced, "10:00:30", "12:00:00", 1), map[string]string{"on-created": "shop", "on-deployed": "abc", "on-sync-succeeded": "abc"}},
		"healthy before": {strings.Replace(synced, "10:00:30", "09:58:00", 1), map[string]string{"on-created": "shop", "on-deployed": "abc", "on-sync-succeeded": "abc"}},
	} {
		response := must.Get(message.Run(message.Request{Object: application(t, one.app), Triggers: triggers}))(t)
		met := map[string]string{}
		for trigger, results := range response.Results {
			for _, result := range results {
				if result.Triggered {
					met[trigger] = result.OncePer
				}
			}
		}
		if !maps.Equal(met, one.want) {
			t.Errorf("%s: %v are met, and not %v", name, met, one.want)
		}
	}
}

// TestCatalogTemplates: each template of the catalog renders for each service that it has
// a section for, and the texts that are JSON are.
func TestCatalogTemplates(t *testing.T) {
	_, templates := catalog(t)
	several := strings.Replace(synced, `source: {repoURL: "https://git.example.com/team/shop.git"}`,
		`sources: [{repoURL: "https://git.example.com/team/shop.git"}, {repoURL: "https://git.example.com/team/base.git"}]`, 1)
	for _, app := range []string{synced, several} {
		for _, name := range slices.Sorted(maps.Keys(templates)) {
			for _, service := range []string{"slack", "teams", "email", "webhook"} {
				response := must.Get(message.Run(message.Request{
					Object: application(t, app), Context: map[string]string{"argocdUrl": "https://cd.example.com"},
					Templates: []message.Template{{Name: name, Text: templates[name]}}, Service: service, Type: service, Recipient: "team",
				}))(t)
				if response.Message == nil || !strings.Contains(response.Message.Text, "shop") {
					t.Fatalf("%s for %s: %+v", name, service, response)
				}
				var section map[string]any
				if response.Message.Section != nil {
					must.Do(t, json.Unmarshal(response.Message.Section, &section))
				}
				for _, field := range []string{"attachments", "facts", "potentialAction"} {
					if text, has := section[field].(string); has && !json.Valid([]byte(text)) {
						t.Errorf("%s.%s of %s is no JSON: %s", service, field, name, text)
					}
				}
			}
		}
	}
}

// TestVariables: the functions of Argo CD's documentation give the same here.
func TestVariables(t *testing.T) {
	for text, want := range map[string]string{
		`{{call .repo.RepoURLToHTTPS "git@github.com:argoproj/argo-cd.git"}}`:    "https://github.com/argoproj/argo-cd.git",
		`{{call .repo.RepoURLToHTTPS "ssh://git@git.example.com:22/team/shop"}}`: "https://git.example.com:22/team/shop",
		`{{call .repo.FullNameByRepoURL "git@github.com:argoproj/argo-cd.git"}}`: "argoproj/argo-cd",
		`{{call .repo.FullNameByRepoURL .app.spec.source.repoURL}}`:              "team/shop",
		`{{(call .repo.GetCommitMetadata .app.status.sync.revision).Author}}`:    "Ada <ada@example.com>",
		`{{call .repo.QueryEscape "a b&c"}}`:                                     "a+b%26c",
		`{{call .strings.ToUpper .recipient}} {{.serviceType}}`:                  "TEAM chat",
		`{{.context.site}} {{.secrets.token | toString}} {{.app.none}}`:          "here s3cret <no value>",
		`{{(call .time.Parse .app.status.operationState.startedAt).Year}}`:       "2026",
		`{{.appProject.metadata.name | upper}}`:                                  "DEFAULT",
		`{{env "HOME"}}`:                                                         "!",
	} {
		response := must.Get(message.Run(message.Request{
			Object: application(t, synced), Project: application(t, `metadata: {name: default}`),
			Context: map[string]string{"site": "here"}, Secrets: map[string][]byte{"token": []byte("s3cret")},
			Commits:   map[string]message.Commit{"abc": {Author: "Ada <ada@example.com>"}},
			Templates: []message.Template{{Name: "mine", Text: string(must.Get(json.Marshal(map[string]string{"message": text}))(t))}},
			Service:   "chat", Type: "slack", Recipient: "team",
		}))(t)
		switch {
		case want == "!" && response.Problem == "":
			t.Errorf("%s gives %q", text, response.Message.Text)
		case want != "!" && (response.Message == nil || response.Message.Text != want):
			t.Errorf("%s gives %+v %s, and not %q", text, response.Message, response.Problem, want)
		}
	}
}

// TestSections: of a template the part for the service is rendered and no other; several
// templates become one message; fields that are left out have the defaults.
func TestSections(t *testing.T) {
	run := func(kind, service string, templates ...string) message.Response {
		request := message.Request{Object: application(t, synced), Type: kind, Service: service}
		for _, text := range templates {
			request.Templates = append(request.Templates, message.Template{Name: "mine", Text: text})
		}
		return must.Get(message.Run(request))(t)
	}
	base := "message: hello {{.app.metadata.name}}\nslack: {attachments: '{{.broken'}\nwebhook:\n  one: {path: '/{{.app.metadata.name}}', body: a}\n"
	if got := run("webhook", "one", base, "webhook:\n  one: {body: b}\n"); string(got.Message.Section) != `{"body":"b","path":"/shop"}` || got.Message.Text != "hello shop" {
		t.Errorf("two templates give %+v %s", got.Message, got.Message.Section)
	}
	if got := run("webhook", "other", base); got.Message.Section != nil {
		t.Errorf("another webhook has %s", got.Message.Section)
	}
	if got := run("slack", "slack", base); !strings.Contains(got.Problem, "mine.slack.attachments") {
		t.Errorf("a broken template gives %q", got.Problem)
	}
	if got := run("github", "github", "github: {status: {state: success}}"); !strings.Contains(string(got.Message.Section), `"repoURLPath":"https://git.example.com/team/shop.git"`) ||
		!strings.Contains(string(got.Message.Section), `"revisionPath":"abc"`) {
		t.Errorf("the defaults of github are %s", got.Message.Section)
	}
}

// FuzzRun: no expression and no template panics.
func FuzzRun(f *testing.F) {
	f.Add("app.status.health.status == 'Healthy'", "app.metadata.name", "message: '{{.app.metadata.name}}'")
	f.Add("time.Now().Sub(time.Parse(app.status.operationState.startedAt)).Minutes() >= 5", "", "slack: {blocks: '{{toJson .app}}'}")
	f.Fuzz(func(_ *testing.T, when, oncePer, template string) {
		_, _ = message.Run(message.Request{
			Object: []byte(`{"metadata":{"name":"shop"}}`), Triggers: map[string][]message.Condition{"t": {{When: when, OncePer: oncePer}}},
			Templates: []message.Template{{Name: "t", Text: template}}, Type: "slack", Service: "slack",
		})
	})
}
