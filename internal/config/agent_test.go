package config_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"slipway.dev/slipway/internal/config"
	"slipway.dev/slipway/internal/must"
)

func loadAgent(t *testing.T, environ []string, args ...string) (*config.Agent, error) {
	t.Helper()
	loaded, err := config.LoadAgent(config.Sources{Args: args, Environ: environ, Switches: []string{"help"}})
	return loaded.Agent, err
}

// TestAgentDefaults: what is not set is safe as it is.
func TestAgentDefaults(t *testing.T) {
	agent := must.Get(loadAgent(t, nil))(t)
	if err := agent.Validate(); err != nil {
		t.Errorf("the defaults are not valid: %v", err)
	}
	if changes := agent.Changes(); len(changes) != 0 {
		t.Errorf("nothing is set, and these differ from the defaults: %v", changes)
	}
	if got := agent.Applications; got.ControlNamespace != "argocd" || time.Duration(got.PollInterval) != 2*time.Minute || !agent.LeaderElection.Enabled {
		t.Errorf("the defaults are %+v", agent)
	}
}

// TestAgentLayers: the file over the defaults, the environment over the file,
// flags over both.
func TestAgentLayers(t *testing.T) {
	file := filepath.Join(t.TempDir(), "agent.yaml")
	text := "applications: {workers: 2, pollInterval: 30s, namespaces: [a, b]}\nkubernetes: {token: do-not-show}\n"
	must.Do(t, os.WriteFile(file, []byte(text), 0o600))
	agent := must.Get(loadAgent(t, []string{"SLIPWAY_APPLICATIONS_WORKERS=3", "SLIPWAY_RENDER_MEMORYLIMIT=1Gi"},
		"--configFile="+file, "--applications.workers=4", "--leaderElection.enabled=false"))(t)
	got := agent.Applications
	if got.Workers != 4 || time.Duration(got.PollInterval) != 30*time.Second || strings.Join(got.Namespaces, " ") != "a b" {
		t.Errorf("applications are %+v", got)
	}
	if agent.Render.MemoryLimit != "1Gi" || agent.LeaderElection.Enabled || agent.Kubernetes.Token.Reveal() != "do-not-show" {
		t.Errorf("the options are %+v", agent)
	}
	printed, err := agent.YAML()
	if err != nil || strings.Contains(string(printed), "do-not-show") || !strings.Contains(string(printed), "token: '[redacted]'") {
		t.Errorf("printed (%v):\n%s", err, printed)
	}
}

// TestAgentFileIsFound: the agent has a file of its own name.
func TestAgentFileIsFound(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"agent.toml": "[applications]\nworkers = 5\n", "edge.yaml": "nonsense: true\n"} {
		must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	loaded, err := config.LoadAgent(config.Sources{Dirs: []string{dir}})
	if err != nil || loaded.File != filepath.Join(dir, "agent.toml") || loaded.Agent.Applications.Workers != 5 {
		t.Errorf("loaded %+v: %v", loaded, err)
	}
}

// TestAgentUnknownOptions: nothing that was written is ignored.
func TestAgentUnknownOptions(t *testing.T) {
	for _, c := range []struct{ name, arg, want string }{
		{"near", "--applications.worker=3", "did you mean --applications.workers?"},
		{"of the edge", "--providers.file.filename=x", "see slipway agent --help"},
		{"a word", "fast", "slipway agent takes only options"},
		{"not a number", "--applications.workers=many", "not a whole number"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := loadAgent(t, nil, c.arg); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, wanted %q in it", err, c.want)
			}
		})
	}
}

func TestAgentValidate(t *testing.T) {
	for _, c := range []struct{ name, arg, want string }{
		{"open admin", "--admin.address=:8091", "admin.address is \":8091\", which others can reach"},
		{"same port", "--webhooks.address=:8083", "webhooks.address is \":8083\", which health.address has taken"},
		{"endpoint", "--kubernetes.endpoint=https://me:pass@host", "use kubernetes.token"},
		{"token", "--kubernetes.token=[redacted]", "kubernetes.token is the text that stands for a hidden token"},
		{"control namespace", "--applications.controlNamespace=Argo", "applications.controlNamespace is \"Argo\""},
		{"namespaces", "--applications.namespaces=a,a", "applications.namespaces has \"a\" twice"},
		{"pattern", "--applications.namespaces=team-*", "applications.namespaces has \"team-*\""},
		{"destinations", "--applications.destinations=*", "applications.destinations has \"*\""},
		{"outbound", "--outbound.allow=10.0.0.1,localhost", "outbound.allow has \"localhost\": write an address"},
		{"runtime name", "--runtime.name=Prod", "runtime.name cannot be used"},
		{"access mode", "--access.mode=vpn", "access.mode"},
		{"access address", "--access.address=:8084", "access.address is \":8084\", which webhooks.address has taken"},
		{"url of a tunnel", "--access.url=https://a.example", "access.url is set, and access.mode is tunnel"},
		{"platform", "--platform.url=https://me:pass@a.example", "platform.url has a user name or password in it"},
		{"no key", "--platform.url=https://a.example", "platform.keyFile is missing, and so is platform.keySecret"},
		{"interval", "--applications.pollInterval=0s", "applications.pollInterval is 0s: it has to be above 0"},
		{"jitter", "--applications.pollJitter=-1s", "applications.pollJitter is -1s: it cannot be negative"},
		{"workers", "--applications.workers=0", "applications.workers is 0: choose a number from 1 to 256"},
		{"render workers", "--render.workers=1000", "render.workers is 1000"},
		{"timeout", "--render.timeout=0s", "render.timeout is 0s"},
		{"timeout of plugins", "--plugins.timeout=0s", "plugins.timeout is 0s"},
		{"memory", "--render.memoryLimit=1Mi", "render.memoryLimit is \"1Mi\": it has to be at least"},
		{"unit", "--render.outputLimit=1MB", "render.outputLimit is \"1MB\": write a number of bytes"},
		{"credentials", "--sources.credentials.passwordFile=/x", "sources.credentials.url is missing, and"},
		{"index", "--sources.indexLimit=128", "sources.indexLimit is \"128\": it has to be at least"},
		{"disk of a project", "--sources.diskPerProject=1Mi", "sources.diskPerProject is \"1Mi\": it has to be at least"},
		{"disk", "--sources.diskLimit=7G", "sources.diskLimit is \"7G\": write a number of bytes"},
		{"secret", "--webhooks.secret=a_b", "webhooks.secret is \"a_b\""},
		{"lease", "--leaderElection.leaseName=", "leaderElection.leaseName is \"\""},
		{"divide alone", "--applications.divide=true --leaderElection.enabled=false", "applications.divide is true, and leaderElection.enabled is false"},
		{"divide by name", "--applications.divide=true --leaderElection.leaseName=a.b", "leaderElection.leaseName is \"a.b\", and applications.divide needs a name"},
		{"divide too fast", "--applications.divideTimeout=1s", "applications.divideTimeout is 1s: it has to be at least 3s"},
	} {
		t.Run(c.name, func(t *testing.T) {
			agent := must.Get(loadAgent(t, nil, strings.Fields(c.arg)...))(t)
			if err := agent.Validate(); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, wanted %q in it", err, c.want)
			}
		})
	}
	agent, err := loadAgent(t, nil, "--applications.namespaces=*")
	if err != nil || agent.Validate() != nil {
		t.Errorf("every namespace: %v, %v", err, agent.Validate())
	}
}

func TestParseSize(t *testing.T) {
	for text, want := range map[string]int64{"0": 0, "1048576": 1 << 20, "3Ki": 3 << 10, "512Mi": 512 << 20, "2Gi": 2 << 30} {
		if got, err := config.ParseSize(text); err != nil || got != want {
			t.Errorf("%s is %d, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "Mi", "-1", "1.5Gi", "1M", "1 Mi", "9223372036854775807Ki", "99999999999999999999"} {
		if got, err := config.ParseSize(text); err == nil {
			t.Errorf("%q is taken as %d", text, got)
		}
	}
}

// FuzzParseSize: whatever is written, a size is never negative, and reads the
// same when it is written out.
func FuzzParseSize(f *testing.F) {
	for _, seed := range []string{"1", "512Mi", "2Gi", "-3Ki", "9223372036854775807", "+1"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		size, err := config.ParseSize(text)
		if err != nil {
			return
		}
		again, err := config.ParseSize(strconv.FormatInt(size, 10))
		if size < 0 || err != nil || again != size {
			t.Errorf("%q is %d, and that is %d, %v", text, size, again, err)
		}
	})
}
