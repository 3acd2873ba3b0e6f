package runtime

import (
	"encoding/base64"
	"encoding/hex"
	"maps"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/internal/agent/join"
	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/must"
)

// R9: none of the secrets that the scene has used is in a response, in what a process
// has written, in an Event, on a page of metrics, in what an agent keeps for the
// platform, or in the platform's database.
func (g *stage) testSecrets(t *testing.T) {
	g.east.canaries(t)
	if len(g.canaries) < 14 {
		t.Errorf("only %d secrets were used", len(g.canaries))
	}
	places := map[string]string{"an answer": g.answers.String()}
	for _, p := range g.processes {
		places["the log of "+p.Name()] += p.Log.String()
	}
	for _, m := range []*member{g.east, g.west} {
		places["the metrics of "+m.name] = metrics(t, m.process)
		places["the Events of "+m.name] = eventsOf(t, m.cluster)
		for path, text := range readState(t, m.state) {
			if strings.Contains(path, "/report/") {
				places[path] = text
			}
		}
	}
	places["the metrics of the platform"] = metrics(t, g.platform)
	maps.Copy(places, g.database(t))
	for name, text := range places {
		for what, value := range g.canaries {
			if found := shows(text, value); found != "" {
				t.Errorf("%s is in %s: …%s…", what, name, found)
			}
		}
	}
	if !strings.Contains(places["the Events of east"], "web") || !strings.Contains(places["an answer"], "east") {
		t.Error("the places are not those of the scene")
	}
	g.requireTrace(t, places)
}

// canaries are the credentials of the runtime itself.
func (m *member) canaries(t *testing.T) {
	t.Helper()
	kept := must.Get(m.cluster.Client.CoreV1().Secrets(m.namespace).Get(t.Context(), join.SecretName, metav1.GetOptions{}))(t)
	found := false
	for field, text := range kept.Data {
		if strings.Contains(strings.ToLower(field), "token") && len(text) > 0 {
			found = true
			m.stage.canary("the "+field+" of "+m.name, string(text))
		}
	}
	if !found {
		t.Errorf("the Secret %s has no token", join.SecretName)
	}
}

// requireTrace makes sure that a secret in the database would be found: something
// else that the scene has written is.
func (g *stage) requireTrace(t *testing.T, places map[string]string) {
	t.Helper()
	for name, text := range places {
		if strings.HasPrefix(name, "the database") && shows(text, adminEmail) != "" {
			return
		}
	}
	t.Error("the database has nothing of the scene")
}

// shows gives the place in a text where a secret is, as it is or in one of the ways
// in which bytes are written, with the secret left out.
func shows(text, value string) string {
	quoted := strconv.Quote(value)
	for _, spelling := range []string{
		value, base64.StdEncoding.EncodeToString([]byte(value)), base64.URLEncoding.EncodeToString([]byte(value)),
		hex.EncodeToString([]byte(value)), quoted[1 : len(quoted)-1],
	} {
		if at := strings.Index(text, strings.TrimRight(spelling, "=")); at >= 0 {
			return text[max(0, at-200):at] + "[secret]"
		}
	}
	return ""
}

// eventsOf is all Events of a cluster.
func eventsOf(t *testing.T, cluster *kubetest.Cluster) string {
	t.Helper()
	list := must.Get(cluster.Client.CoreV1().Events("").List(t.Context(), metav1.ListOptions{}))(t)
	return list.String()
}

// database is what the platform keeps: every file of SQLite, with what is not in
// the database proper yet, or a dump of PostgreSQL.
func (g *stage) database(t *testing.T) map[string]string {
	t.Helper()
	kept := map[string]string{}
	for path, text := range readState(t, g.at.dir) {
		kept["the database "+path] = text
	}
	if g.at.url == "" {
		return kept
	}
	out, err := exec.CommandContext(t.Context(), "/usr/lib/postgresql/15/bin/pg_dump", "--inserts", g.at.url).Output()
	if err != nil || !strings.Contains(string(out), "CREATE TABLE") {
		t.Fatalf("pg_dump: %v\n%s", err, out)
	}
	kept["the database"] = string(out)
	return kept
}

// TestShows: each way in which a secret could be written is found.
func TestShows(t *testing.T) {
	const value = "canary\"of\nthe test"
	for _, spelling := range []string{
		value, base64.StdEncoding.EncodeToString([]byte(value)), hex.EncodeToString([]byte(value)), `canary\"of\nthe test`,
	} {
		if found := shows("before "+spelling+" after", value); found != "before [secret]" {
			t.Errorf("of %q in %q this is shown: %q", value, spelling, found)
		}
	}
	if shows("nothing", value) != "" {
		t.Error("a secret is found where there is none")
	}
}
