package notify

import (
	"cmp"
	"fmt"
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"slipway.dev/slipway/internal/gitops/notify/message"
	"slipway.dev/slipway/internal/gitops/notify/service"
)

// settings returns some with two services and two triggers.
func settings() *Settings {
	return Read(&corev1.ConfigMap{Data: map[string]string{
		"service.slack": "token: $token", "service.webhook.hook": "url: https://example.com",
		"trigger.one": "- when: 'true'\n  send: [t]\n", "trigger.two": "- when: 'true'\n  send: [t]\n", "template.t": "message: x",
		"defaultTriggers": "[one]", "defaultTriggers.hook": "[two]",
		"subscriptions": "- recipients: ['slack:all']\n  triggers: [two]\n  selector: team=a\n",
	}}, &corev1.Secret{Data: map[string][]byte{"token": []byte("x")}}, service.NewClients(nil))
}

// TestSubscriptions: the forms of annotations that Argo CD documents name the same
// destinations here.
func TestSubscriptions(t *testing.T) {
	const prefix = "notifications.argoproj.io/"
	for name, one := range map[string]struct {
		labels, app, project map[string]string
		want                 string
		problem              string
	}{
		"trigger and service": {nil, map[string]string{prefix + "subscribe.one.slack": "a; b"}, nil, "map[one:[slack:a slack:b]]", ""},
		"service alone":       {nil, map[string]string{prefix + "subscribe.slack": "a"}, nil, "map[one:[slack:a]]", ""},
		"triggers of service": {nil, map[string]string{prefix + "subscribe.hook": ""}, nil, "map[two:[hook:]]", ""},
		"list": {nil, map[string]string{prefix + "subscriptions": "- trigger: [one, two]\n  destinations: [{service: slack, recipients: [a]}]\n- destinations: [{service: slack, recipients: [b]}]\n"},
			nil, "map[one:[slack:a slack:b] two:[slack:a]]", ""},
		"project":  {nil, nil, map[string]string{prefix + "subscribe.two.slack": "a"}, "map[two:[slack:a]]", ""},
		"default":  {map[string]string{"team": "a"}, map[string]string{prefix + "subscribe.two.slack": "all"}, nil, "map[two:[slack:all]]", ""},
		"unknown":  {nil, map[string]string{prefix + "subscribe.three.slack": "a", prefix + "subscribe.one.nats": "a"}, nil, "map[]", `there is no service "nats": subscriptions can name hook, slack; there is no trigger "three": subscriptions can name on-certificate-problem, on-held, on-release-rolled-back, on-route-served, one, two`},
		"too many": {nil, map[string]string{prefix + "subscribe.one.slack": strings.Repeat("a;b;", 1) + many(200)}, nil, "", "only the first 100 destinations are used"},
		"at most":  {nil, map[string]string{prefix + "subscribe.one.slack": many(100)}, nil, "", ""},
		"long":     {nil, map[string]string{prefix + "subscribe.one.slack": strings.Repeat("x", 512) + ";" + strings.Repeat("y", 513)}, nil, "map[one:[slack:" + strings.Repeat("x", 512) + "]]", "a recipient of slack is longer than 512 bytes"},
		"others":   {nil, map[string]string{"example.com/subscribe.one.slack": "a"}, nil, "map[]", ""},
	} {
		got, problems := settings().subscriptionsOf(one.labels, one.app, one.project)
		if one.want != "" && fmt.Sprint(got) != one.want || strings.Join(problems, "; ") != one.problem {
			t.Errorf("%s: %v %v", name, got, problems)
		}
	}
}

// many are recipients.
func many(count int) string {
	var all strings.Builder
	for i := range count {
		fmt.Fprintf(&all, "r%d;", i)
	}
	return all.String()
}

// TestBuiltin: the triggers that need no setting are met by a hold, and their templates
// name both revisions. Those about the edge are met by what it serves.
func TestBuiltin(t *testing.T) {
	given := Read(nil, nil, service.NewClients(nil))
	held := `{"metadata":{"name":"shop"},"status":{"held":{"revisions":["aaa"],"target":["bbb"],"reason":"REASON","message":"5 % errors","heldAt":"2026-01-01T10:00:00Z"}}}`
	for object, want := range map[string]int{`{"status":{}}`: 0, strings.Replace(held, "REASON", "Rollback", 1): 1, strings.Replace(held, "REASON", "ReleaseFailed", 1): 2} {
		response, err := message.Run(message.Request{Object: []byte(object), Triggers: given.Triggers})
		met := 0
		for _, results := range response.Results {
			if results[0].Triggered && results[0].OncePer == "2026-01-01T10:00:00Z" {
				met++
			}
		}
		if err != nil || met != want {
			t.Errorf("%s meets %v: %v", object, response, err)
		}
	}
	edge := &message.Edge{Routes: []string{"a.example.com/"}, Problems: []string{"it has expired"}}
	response, err := message.Run(message.Request{Object: []byte(`{"status":{}}`), Edge: edge, Triggers: given.Triggers})
	if err != nil || !response.Results[servedTrigger][0].Triggered || response.Results[servedTrigger][0].OncePer != "a.example.com/" || !response.Results[certTrigger][0].Triggered {
		t.Errorf("the edge gives %+v: %v", response, err)
	}
	texts := map[string]string{"app-route-served": "are live: a.example.com/", "app-certificate-problem": "with certificates: it has expired"}
	for name, text := range given.Templates {
		response, err := message.Run(message.Request{Object: []byte(held), Edge: edge, Templates: []message.Template{{Name: name, Text: text}}, Type: "email", Service: "email"})
		want := cmp.Or(texts[name], "revision aaa, and bbb is held back: 5 % errors")
		if err != nil || response.Message == nil || !strings.Contains(response.Message.Text, want) || !strings.Contains(string(response.Message.Section), `"subject":`) {
			t.Errorf("%s gives %+v: %v", name, response, err)
		}
	}
}

// TestSettings: a part that is wrong has no effect, and the others count.
func TestSettings(t *testing.T) {
	read := Read(&corev1.ConfigMap{Data: map[string]string{
		"service.webhook.ok": "url: https://example.com\nbasicAuth: {username: u, password: $path}", "service.webhook.bad": "url: $none", "trigger.bad": "when: x", "triger.x": "",
		"subscriptions": "- recipients: [none]\n  triggers: [gone]\n", "config.yaml": "x",
	}}, &corev1.Secret{Data: map[string][]byte{"path": []byte("a\ninsecureSkipVerify: true")}}, service.NewClients(nil))
	if len(read.Services) != 1 || len(read.Problems) != 7 {
		t.Errorf("%v\n%s", reflect.ValueOf(read.Services).MapKeys(), strings.Join(read.Problems, "\n"))
	}
	for _, problem := range read.Problems {
		if strings.Contains(problem, "insecureSkipVerify") {
			t.Errorf("a value of the Secret is in %q", problem)
		}
	}
}

// FuzzSubscriptions: no annotation panics, and there are never more destinations than
// the bound.
func FuzzSubscriptions(f *testing.F) {
	f.Add("subscribe.one.slack", "a;b")
	f.Add("subscriptions", "- trigger: [one]\n  destinations: [{service: slack, recipients: [a]}]\n")
	given := settings()
	f.Fuzz(func(t *testing.T, name, value string) {
		found, _ := given.subscriptionsOf(nil, map[string]string{"notifications.argoproj.io/" + name: value}, nil)
		count := 0
		for _, all := range found {
			count += len(all)
		}
		if count > maxDestinations {
			t.Errorf("%d destinations", count)
		}
		_ = readRecord(value).String()
	})
}
