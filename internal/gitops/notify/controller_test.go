package notify_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/argotest"
	"slipway.dev/slipway/internal/gitops/notify"
	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
)

// hook has a template for a webhook, beside those of the catalog.
const hook = "message: '{{.app.metadata.name}} {{.app.status.sync.revision}}'\nwebhook:\n  hook: {method: POST, path: '/{{.app.metadata.name}}', body: '{{.app.status.operationState.syncResult.revision}}'}\n"

// TestCatalog: the catalog of Argo CD, applied as it is, sends one message for each
// subscription and revision: by an annotation of the Application, by one of its project
// and by default; also after a restart.
func TestCatalog(t *testing.T) {
	w := newWorld(t)
	web, chat, mail := newWebServer(t), newWebServer(t), newMailServer(t)
	_, port, _ := strings.Cut(mail.address, ":")
	must.Get(w.Client.CoreV1().Secrets(w.namespace).Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: notify.Secret}, StringData: map[string]string{"slack-token": "xoxb"},
	}, metav1.CreateOptions{}))(t)
	w.catalog(t, map[string]string{
		"service.slack": "token: $slack-token\napiURL: " + chat.address, "service.email": "host: 127.0.0.1\nport: " + port + "\nfrom: cd@example.com",
		"service.webhook.hook": "url: " + web.address, "template.hook": hook,
		"trigger.on-commit": "- when: app.status.sync.status == 'Synced'\n  oncePer: app.status.sync.revision\n  send: [hook]\n",
		"subscriptions":     "- recipients: [email:team@example.com]\n  triggers: [on-deployed]\n  selector: mail!=no\n",
		"context":           "argocdUrl: https://cd.example.com\n",
	})
	w.Apply(t, w.namespace, "apiVersion: argoproj.io/v1alpha1\nkind: AppProject\nmetadata: {name: default, annotations: {notifications.argoproj.io/subscribe.on-sync-succeeded.slack: ops}}\nspec: {sourceRepos: ['*'], destinations: [{server: '*', namespace: '*'}]}\n")
	stop := w.start(t)
	w.application(t, "shop", "notifications.argoproj.io/subscribe.on-commit.hook: ''")
	for i, revision := range []string{"aaa", "bbb"} {
		w.deployed(t, "shop", revision, revision)
		await(t, i+1, web, chat, mail)
	}
	stop()
	w.start(t)
	// A commit that changes other files changes the revision of the comparison alone.
	w.deployed(t, "shop", "bbb", "ccc")
	// The next Application is processed after that.
	w.application(t, "marker", "notifications.argoproj.io/subscribe.on-commit.hook: ''")
	w.deployed(t, "marker", "ddd", "ddd")
	await(t, 3, web, chat, mail)
	exactly(t, 3, web, chat, mail)
	if got := web.messages()[1]; got.path != "/shop" || got.body != "bbb" || got.key == web.messages()[0].key {
		t.Errorf("the webhook has %+v", got)
	}
	if got := chat.messages()[0].body; !strings.Contains(got, `"channel":"ops"`) || !strings.Contains(got, "has been successfully synced") {
		t.Errorf("Slack has %s", got)
	}
	first := mail.messages()[0].body
	text := must.Get(base64.StdEncoding.DecodeString(strings.ReplaceAll(first[strings.Index(first, "\r\n\r\n")+4:], "\r\n", "")))(t)
	if !strings.Contains(first, "Subject: New version of an application shop is up and running.\r\n") || !strings.Contains(string(text), "Application shop is now running new version") {
		t.Errorf("the mail is %s with %s", first, text)
	}
}

// TestKilledBeforeRecord: a process that ends after a message was accepted and before
// that is recorded sends it again with the same key, and then never again.
func TestKilledBeforeRecord(t *testing.T) {
	w := newWorld(t)
	web := newWebServer(t)
	gate := &kubetest.Gate{}
	var cut atomic.Bool
	web.handle = func(received) int {
		if !cut.Swap(true) {
			gate.Close() // the record cannot be written any more
		}
		return http.StatusOK
	}
	w.catalog(t, map[string]string{"service.webhook.hook": "url: " + web.address, "template.app-deployed": hook})
	stop := w.start(t, gate.Option)
	w.application(t, "shop", "notifications.argoproj.io/subscribe.on-deployed.hook: ''")
	w.deployed(t, "shop", "aaa", "aaa")
	await(t, 1, web)
	stop()
	w.start(t)
	await(t, 2, web)
	recorded(t, w, "shop", 1)
	w.deployed(t, "shop", "bbb", "bbb")
	await(t, 3, web)
	exactly(t, 3, web)
	if got := web.messages(); got[0].key != got[1].key || got[1].key == got[2].key || got[0].body != got[1].body {
		t.Errorf("the webhook has %v", got)
	}
}

// TestStatusBehind: an operation after which the status does not change is news, too. A
// process that is killed right after it leaves such a status.
func TestStatusBehind(t *testing.T) {
	w := newWorld(t)
	web := newWebServer(t)
	w.catalog(t, map[string]string{"service.webhook.hook": "url: " + web.address, "template.app-deployed": hook})
	w.application(t, "shop", "notifications.argoproj.io/subscribe.on-deployed.hook: ''")
	w.deployed(t, "shop", "aaa", "aaa")
	must.Get(argotest.Applications(w.Cluster, w.namespace).Patch(t.Context(), "shop", types.MergePatchType,
		[]byte(`{"status": {"reconciledAt": "2026-01-01T10:00:19Z"}}`), metav1.PatchOptions{}, "status"))(t)
	w.start(t)
	await(t, 1, web)
	recorded(t, w, "shop", 1)
}

// recorded waits until the record of an Application has entries, and no intent.
func recorded(t *testing.T, w *world, name string, entries int) {
	t.Helper()
	argotest.WaitFor(t, argotest.Applications(w.Cluster, w.namespace), name, programs.Timeout, func(app *v1alpha1.Application) error {
		text := app.Annotations[notify.RecordAnnotation]
		if strings.Count(text, ":on-") != entries || strings.Contains(text, `":-`) {
			return fmt.Errorf("the record is %s", text)
		}
		return nil
	})
}

// TestRetry: a message that is not accepted is tried again with the same key. What a
// retry does not repair is an Event, and is sent when the settings are repaired.
func TestRetry(t *testing.T) {
	w := newWorld(t)
	web := newWebServer(t)
	var keys atomic.Pointer[[]string]
	keys.Store(&[]string{})
	web.handle = func(one received) int {
		all := append(*keys.Load(), one.key)
		keys.Store(&all)
		if len(all) == 1 {
			return http.StatusBadGateway
		}
		return http.StatusOK
	}
	w.catalog(t, map[string]string{
		"service.webhook.hook": "url: " + web.address, "service.webhook.gone": "url: " + web.address,
		"template.app-deployed": hook, "template.app-sync-succeeded": "message: '{{.broken'",
		"service.nats": "url: nats://example.com", "trigger.on-deployed.extra": "- when: 'true'\n  send: [none]\n",
	})
	w.start(t)
	w.application(t, "shop", "notifications.argoproj.io/subscribe.on-deployed.hook: '', notifications.argoproj.io/subscribe.on-sync-succeeded.gone: '', notifications.argoproj.io/subscribe.on-deployed.nats: x")
	w.deployed(t, "shop", "aaa", "aaa")
	await(t, 1, web)
	if got := *keys.Load(); len(got) != 2 || got[0] != got[1] || got[0] == "" {
		t.Errorf("the attempts have the keys %v", got)
	}
	// One failure is no news.
	for _, one := range must.Get(w.Client.EventsV1().Events(w.namespace).List(t.Context(), metav1.ListOptions{FieldSelector: "reason=NotificationFailed"}))(t).Items {
		if strings.Contains(one.Note, "on-deployed") {
			t.Errorf("there is the Event %q", one.Note)
		}
	}
	event(t, w, "SettingsIgnored", "service.nats: services of the type nats are not supported: use a webhook service", "trigger.on-deployed.extra: there is no template none")
	event(t, w, "NotificationFailed", "on-sync-succeeded to gone:: render the message:")
	event(t, w, "SubscriptionIgnored", `there is no service "nats": subscriptions can name gone, hook`)
	w.configure(t, map[string]string{
		"service.webhook.hook": "url: " + web.address, "service.webhook.gone": "url: " + web.address, "template.app-deployed": hook,
		"template.app-sync-succeeded": "message: repaired",
	})
	await(t, 2, web)
	if got := web.messages()[1].body; got != "repaired" {
		t.Errorf("the message is %q", got)
	}
	recorded(t, w, "shop", 2)
}

// event waits for an Event with texts.
func event(t *testing.T, w *world, reason string, texts ...string) {
	t.Helper()
	programs.Eventually(t, func(ctx context.Context) error {
		found, err := w.Client.EventsV1().Events(w.namespace).List(ctx, metav1.ListOptions{FieldSelector: "reason=" + reason})
		if err != nil {
			return err
		}
		err = fmt.Errorf("there is no Event %s", reason)
		for _, one := range found.Items {
			missing := []error{}
			for _, text := range texts {
				if !strings.Contains(one.Note, text) {
					missing = append(missing, fmt.Errorf("the Event is %q", one.Note))
				}
			}
			if err = errors.Join(missing...); err == nil {
				return nil
			}
		}
		return err
	})
}
