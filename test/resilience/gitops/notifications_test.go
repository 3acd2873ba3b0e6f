package gitops

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/mail"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/gittest"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
	"slipway.dev/slipway/test/gitops/agentprocess"
)

// deliveries are what receivers got: for each of them and each revision the keys of the
// messages, with how often each came in.
type deliveries struct {
	mu  sync.Mutex
	all map[string]map[string]map[string]int
	// killOn is called for the next message of a webhook, before or after the response;
	// nil for nothing.
	killOn        func()
	killResponded bool
}

// add counts a message.
func (d *deliveries) add(receiver, revision, key string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.all[receiver] == nil {
		d.all[receiver] = map[string]map[string]int{}
	}
	if d.all[receiver][revision] == nil {
		d.all[receiver][revision] = map[string]int{}
	}
	d.all[receiver][revision][key]++
}

// keys returns how many messages of a revision a receiver has, and how often one of them
// came in again.
func (d *deliveries) keys(receiver, revision string) (messages, repeated int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, times := range d.all[receiver][revision] {
		messages++
		repeated += times - 1
	}
	return messages, repeated
}

// takeKill returns what to do at a message, once.
func (d *deliveries) takeKill() (kill func(), responded bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	kill = d.killOn
	d.killOn = nil
	return kill, d.killResponded
}

// notified is an agent that is killed while it sends notifications, and its receivers.
type notified struct {
	*suite
	control    string
	given      agentprocess.Options
	agent      *agentprocess.Agent
	repository *gittest.Repository
	got        *deliveries
	mailbox    string
	seenMail   map[string]bool
}

// receivers are those that get a message for each revision. The catalog's is one by mail,
// without a subscription of the Application.
var receivers = []string{"webhook", "mail", "alertmanager", "catalog"}

// testNotifications kills the agent while it sends notifications by Argo CD's catalog as it
// is published: each receiver has one message for each subscription and revision.
func (s *suite) testNotifications(t *testing.T) {
	seed := programs.Setting(t, "RESILIENCE_SEED", time.Now().UnixNano())
	t.Logf("RESILIENCE_SEED=%d repeats the random choices", seed)
	random := rand.New(rand.NewPCG(uint64(seed), 2))
	n := &notified{suite: s, control: s.cluster.Namespace(t), got: &deliveries{all: map[string]map[string]map[string]int{}}, seenMail: map[string]bool{}}
	target := s.cluster.Namespace(t)
	n.configure(t)
	t.Cleanup(func() {
		if !t.Failed() {
			return
		}
		if app, err := agentprocess.Applications(s.cluster.Cluster, n.control).Get(context.Background(), "app", metav1.GetOptions{}); err == nil {
			programs.ShowLog(t, "the Application", fmt.Sprintf("record: %s\nstatus: %v", app.GetAnnotations()["notified.notifications.argoproj.io"], app.Object["status"]))
		}
	})
	n.repository = gittest.Serve(t).Repository(t, "app", round(0))
	n.given = s.options(n.control, "--sources.cacheDir="+t.TempDir())
	n.agent = agentprocess.Start(t, n.given)
	s.application(t, n.control, target, n.repository)
	must.Get(agentprocess.Applications(s.cluster.Cluster, n.control).Patch(t.Context(), "app", types.MergePatchType, []byte(`{"metadata": {"annotations": {
		"notifications.argoproj.io/subscribe.on-revision.hook": "", "notifications.argoproj.io/subscribe.on-revision.email": "team@example.com",
		"notifications.argoproj.io/subscribe.on-revision.alertmanager": ""}}}`), metav1.PatchOptions{}))(t)
	revisions := []string{n.repository.Head(t)}
	n.awaitAll(t, revisions[0])
	revisions = append(revisions, n.repository.Commit(t, round(1), "round 1"))
	n.awaitAll(t, revisions[1])
	count := 3 // of each way to end at least one
	if os.Getenv("RESILIENCE") == "long" {
		count = int(kills(t))
	}
	for i := range count {
		if i%3 == 0 {
			n.killAtMessage(t, i%6 == 3)
		}
		commit := n.repository.Commit(t, round(i+2), fmt.Sprint("round ", i+2))
		if i%3 != 0 {
			n.awaitSynced(t, commit)
			<-time.After(time.Duration(random.Int64N(int64(sendingTime))))
			n.agent.Kill()
		}
		<-n.agent.Exited()
		n.agent = agentprocess.Start(t, n.given)
		n.awaitAll(t, commit)
		revisions = append(revisions, commit)
	}
	// What is sent late comes before the messages of one more revision.
	revisions = append(revisions, n.repository.Commit(t, round(count+2), "last"))
	n.awaitAll(t, revisions[len(revisions)-1])
	n.check(t, revisions, count)
}

// sendingTime is about how long the messages of a revision take.
const sendingTime = 150 * time.Millisecond

// awaitSynced waits until the status has the sync to a commit: from then on there are
// messages to send. What kills before that do to a sync is what the test of kills shows.
func (n *notified) awaitSynced(t *testing.T, commit string) {
	t.Helper()
	agentprocess.Await(t, agentprocess.Applications(n.cluster.Cluster, n.control), "app", func(app *v1alpha1.Application) error {
		if state := app.Status.OperationState; state == nil || state.SyncResult == nil || state.SyncResult.Revision != commit {
			return fmt.Errorf("it is not synced to %s", commit)
		}
		return nil
	})
}

// killAtMessage kills the agent when the webhook has its next message, before or after
// the response.
func (n *notified) killAtMessage(t *testing.T, responded bool) {
	t.Helper()
	n.got.mu.Lock()
	defer n.got.mu.Unlock()
	n.got.killOn, n.got.killResponded = n.agent.Kill, responded
}

// check compares what receivers have with the revisions.
func (n *notified) check(t *testing.T, revisions []string, kills int) {
	t.Helper()
	lost, double, again := 0, 0, 0
	for _, receiver := range receivers {
		for i, revision := range revisions {
			if receiver == "catalog" {
				continue
			}
			messages, repeated := n.got.keys(receiver, revision)
			if messages != 1 {
				t.Errorf("%s has %d messages of revision %d", receiver, messages, i)
			}
			lost, double, again = lost+max(0, 1-messages), double+max(0, messages-1), again+repeated
		}
	}
	messages, repeated := n.got.keys("catalog", "")
	if messages != len(revisions) {
		t.Errorf("the template of the catalog was sent %d times for %d revisions", messages, len(revisions))
	}
	lost, double, again = lost+max(0, len(revisions)-messages), double+max(0, messages-len(revisions)), again+repeated
	t.Logf("%d kills, %d revisions, 4 receivers: %d messages lost, %d double, %d came in again with the same key", kills, len(revisions), lost, double, again)
}

// awaitAll waits until every receiver has a message of a revision.
func (n *notified) awaitAll(t *testing.T, revision string) {
	t.Helper()
	programs.Until(t, "each receiver has a message of "+revision, func() bool {
		n.readMail(t)
		for _, receiver := range receivers[:3] {
			if messages, _ := n.got.keys(receiver, revision); messages == 0 {
				return false
			}
		}
		// Its text has no revision: there are as many as of the others.
		messages, _ := n.got.keys("catalog", "")
		n.got.mu.Lock()
		defer n.got.mu.Unlock()
		return messages >= len(n.got.all["webhook"])
	})
}

// configure applies the catalog and starts the receivers.
func (n *notified) configure(t *testing.T) {
	t.Helper()
	catalog := must.Get(os.ReadFile(filepath.Join(programs.ModuleFolder(t, "github.com/argoproj/argo-cd/v3"), "notifications_catalog", "install.yaml")))(t)
	n.cluster.Apply(t, n.control, string(catalog))
	hook := httptest.NewServer(http.HandlerFunc(n.serveHook))
	t.Cleanup(hook.Close)
	mailServer, alerts := n.startMailServer(t), n.startAlertmanager(t)
	_, port, _ := net.SplitHostPort(mailServer)
	data := map[string]string{
		"service.webhook.hook": "url: " + hook.URL, "service.email": "host: 127.0.0.1\nport: " + port + "\nfrom: cd@example.com\n",
		"service.alertmanager": "targets: [" + alerts + "]\n",
		"subscriptions":        "- recipients: [email:catalog@example.com]\n  triggers: [on-deployed]\n",
		"trigger.on-revision":  "- when: app.status.operationState.phase == 'Succeeded' and app.status.health.status == 'Healthy'\n  oncePer: app.status.operationState.syncResult.revision\n  send: [revision]\n",
		"template.revision": "message: '{{.app.status.operationState.syncResult.revision}}'\nalertmanager:\n  labels: {revision: '{{.app.status.operationState.syncResult.revision}}'}\n" +
			"webhook:\n  hook: {method: POST, body: '{{.app.status.operationState.syncResult.revision}}'}\n",
	}
	patch := must.Get(json.Marshal(map[string]any{"data": data}))(t)
	must.Get(n.cluster.Client.CoreV1().ConfigMaps(n.control).Patch(t.Context(), "argocd-notifications-cm", types.MergePatchType, patch, metav1.PatchOptions{}))(t)
}

// serveHook is the receiver of webhooks.
func (n *notified) serveHook(w http.ResponseWriter, request *http.Request) {
	body, _ := io.ReadAll(request.Body)
	n.got.add("webhook", string(body), request.Header.Get("Idempotency-Key"))
	if kill, responded := n.got.takeKill(); kill != nil {
		if responded {
			w.WriteHeader(http.StatusOK)
			_ = http.NewResponseController(w).Flush()
		}
		kill()
	}
}

// startMailServer runs aiosmtpd, which keeps mail in a folder.
func (n *notified) startMailServer(t *testing.T) string {
	t.Helper()
	address := programs.FreeAddress(t)
	n.mailbox = filepath.Join(t.TempDir(), "mail")
	server := programs.Run(t, "the mail server", exec.Command("aiosmtpd", "-n", "-l", address.String(), "-c", "aiosmtpd.handlers.Mailbox", n.mailbox))
	server.AwaitListener(t, "tcp", address.String())
	return address.String()
}

// readMail counts the mail that has come since the last time.
func (n *notified) readMail(t *testing.T) {
	t.Helper()
	files, _ := filepath.Glob(filepath.Join(n.mailbox, "new", "*"))
	for _, file := range files {
		if n.seenMail[file] {
			continue
		}
		n.seenMail[file] = true
		letter := must.Get(mail.ReadMessage(strings.NewReader(string(must.Get(os.ReadFile(file))(t)))))(t)
		if strings.Contains(letter.Header.Get("To"), "catalog@") {
			n.got.add("catalog", "", letter.Header.Get("Message-ID"))
			continue
		}
		body := must.Get(io.ReadAll(base64.NewDecoder(base64.StdEncoding, letter.Body)))(t)
		n.got.add("mail", string(body), letter.Header.Get("Message-ID"))
	}
}

// startAlertmanager runs Alertmanager, which sends each alert on to a webhook.
func (n *notified) startAlertmanager(t *testing.T) string {
	t.Helper()
	sink := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, request *http.Request) {
		var group struct {
			Alerts []struct {
				Fingerprint string
				Labels      map[string]string
			}
		}
		if json.NewDecoder(request.Body).Decode(&group) == nil {
			for _, alert := range group.Alerts {
				n.got.add("alertmanager", alert.Labels["revision"], alert.Fingerprint)
			}
		}
	}))
	t.Cleanup(sink.Close)
	folder := t.TempDir()
	must.Do(t, os.WriteFile(filepath.Join(folder, "config.yml"), []byte("global: {resolve_timeout: 24h}\nroute: {receiver: sink, group_by: ['...'], group_wait: 0s, group_interval: 1s, repeat_interval: 24h}\n"+
		"receivers: [{name: sink, webhook_configs: [{url: '"+sink.URL+"', send_resolved: false}]}]\n"), 0o600))
	address := programs.FreeAddress(t)
	server := programs.Run(t, "Alertmanager", exec.Command("prometheus-alertmanager", "--config.file="+filepath.Join(folder, "config.yml"),
		"--storage.path="+folder, "--web.listen-address="+address.String(), "--cluster.listen-address="))
	server.AwaitListener(t, "tcp", address.String())
	return address.String()
}

// round are the files of a revision.
func round(number int) map[string]string {
	return map[string]string{"app/settings.yaml": fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {round: \"%d\"}\n", number)}
}
