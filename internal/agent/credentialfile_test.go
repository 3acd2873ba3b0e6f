package agent_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"slipway.dev/slipway/internal/agent"
	"slipway.dev/slipway/internal/config"
	"slipway.dev/slipway/internal/gitops/gittest"
	"slipway.dev/slipway/internal/install/chart"
	"slipway.dev/slipway/internal/must"
)

// TestChartCredentials: R37, R79: with the values of the chart, a Git server with a
// certificate of a private authority and a token in a Secret that another tool created
// are all that an Application needs. The token is a file: a wrong one is reported without
// being shown, and the right one is used without a restart.
func TestChartCredentials(t *testing.T) {
	const right, wrong = "token-right-1", "token-wrong-2"
	w := newWorld(t)
	git := gittest.Serve(t, gittest.TLS(), gittest.BasicAuth("robot", right))
	repository := git.Repository(t, "shop", map[string]string{"one.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: one}\n"})
	address := strings.TrimSuffix(repository.URL(), "/shop.git")
	objects, options := w.charted(t, map[string]any{
		"global": map[string]any{"platform": map[string]any{"enabled": false}, "runtime": map[string]any{"gitCredentials": map[string]any{
			"username": "robot", "url": address, "password": map[string]any{"secretKeyRef": map[string]any{"name": "mine", "key": "git"}},
		}}},
		"agent": map[string]any{"repositories": map[string]any{"certificates": map[string]any{"127.0.0.1": git.CertificateAuthority()}}},
	})
	w.apply(t, objects["ConfigMap argocd-tls-certs-cm"])
	mounted := objects["Deployment slipway-agent"]
	for _, want := range []string{"secretName: mine", "key: git", "path: password", "mountPath: /etc/slipway/git"} {
		if !strings.Contains(mounted, want) {
			t.Errorf("the Pod has no %q", want)
		}
	}
	from := options.Sources.Credentials
	if from.PasswordFile != "/etc/slipway/git/password" || from.Username != "robot" || from.URL != address {
		t.Fatalf("%+v", from)
	}

	file := filepath.Join(t.TempDir(), "password")
	put := func(text string) {
		t.Helper()
		must.Do(t, os.WriteFile(file, []byte(text+"\n"), 0o600))
	}
	put(wrong)
	w.application(t, "shop", repository.URL())
	replica := w.start(t, "one", func(o *agent.Options) {
		o.Credential = &agent.FileCredential{URL: from.URL, Username: from.Username, File: file}
	})
	w.await(t, "shop", func(status map[string]any) error {
		text := fmt.Sprint(status["conditions"])
		if strings.Contains(text, wrong) {
			t.Fatal("the token is in the status")
		}
		if !strings.Contains(text, "ComparisonError") {
			return fmt.Errorf("it has no error: %s", text)
		}
		return nil
	})
	put(right)
	w.syncedTo(t, "shop", repository.Git(t, "rev-parse", "main"))
	if text := replica.log.String(); strings.Contains(text, right) || strings.Contains(text, wrong) {
		t.Error("the token is in the log")
	}
}

// charted renders the runtime's chart: its objects by kind and name, and the options
// that the agent has then.
func (w *world) charted(t *testing.T, values map[string]any) (map[string]string, *config.Agent) {
	t.Helper()
	loaded := must.Get(chart.Load("../../charts/gitops-runtime"))(t)
	rendered := must.Get(loaded.Render(t.Context(), values, chart.Release{Name: "slipway-runtime", Namespace: w.control}))(t)
	objects := map[string]string{}
	file := filepath.Join(t.TempDir(), "agent.yaml")
	for _, object := range rendered.Objects {
		text := must.Get(yaml.Marshal(object.Object))(t)
		name := object.GetKind() + " " + object.GetName()
		objects[name] = string(text)
		if name == "ConfigMap slipway-agent" {
			data, _ := object.Object["data"].(map[string]any)
			must.Do(t, os.WriteFile(file, []byte(data["agent.yaml"].(string)), 0o600))
		}
	}
	read := must.Get(config.LoadAgent(config.Sources{Args: []string{"--configFile=" + file}}))(t)
	must.Do(t, read.Agent.Validate())
	return objects, read.Agent
}

// TestCredentialFileMissing: a missing file is reported with what to do, and the
// agent works without it.
func TestCredentialFileMissing(t *testing.T) {
	w := newWorld(t)
	replica := w.start(t, "one", func(o *agent.Options) {
		o.Credential = &agent.FileCredential{URL: "https://git.example.com", File: filepath.Join(t.TempDir(), "none")}
	})
	replica.logs(t, "secretKeyRef")
	replica.readyWhen(t, "")
}
