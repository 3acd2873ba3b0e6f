package cli_test

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/strvals"
	"sigs.k8s.io/yaml"

	"slipway.dev/slipway/internal/cli"
	"slipway.dev/slipway/internal/install/chart"
)

// TestInstallPages: each command in docs/install is one that a shell and this program
// take as it is written, and the values of each page fit the chart.
func TestInstallPages(t *testing.T) {
	runtime, err := chart.Load("../../charts/gitops-runtime")
	if err != nil {
		t.Fatal(err)
	}
	pages, _ := filepath.Glob("../../docs/install/*.md")
	more, _ := filepath.Glob("../../docs/install/controllers/*.md")
	commands := 0
	for _, page := range append(pages, more...) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, block := range blocksOf(string(text)) {
			switch block.language {
			case "sh":
				for _, words := range commandsOf(t, page, block.text) {
					commands++
					tryCommand(t, page, words, runtime)
				}
			case "yaml":
				tryValues(t, page, block.text, runtime)
			}
		}
	}
	if commands < 70 {
		t.Errorf("only %d commands were found", commands)
	}
}

type block struct{ language, text string }

// blocksOf are the fenced blocks of a page.
func blocksOf(page string) (blocks []block) {
	parts := strings.Split("\n"+page, "\n```")
	for i := 1; i < len(parts); i += 2 {
		language, text, _ := strings.Cut(parts[i], "\n")
		blocks = append(blocks, block{language, text})
	}
	return blocks
}

// commandsOf has a shell read a block, with every program replaced by one that notes
// its words.
func commandsOf(t *testing.T, page, text string) (commands [][]string) {
	t.Helper()
	folder := t.TempDir()
	for _, name := range []string{"FILE", "token.txt"} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var script strings.Builder
	script.WriteString("set -eu\n")
	for _, program := range []string{"slipway", "helm", "kubectl", "gcloud", "sudo"} {
		script.WriteString(program + "() { printf '%s\\037' " + program + " \"$@\" >> noted; printf '\\n' >> noted; }\n")
	}
	command := exec.CommandContext(t.Context(), "bash", "-c", script.String()+text)
	command.Dir, command.Env = folder, []string{"PATH="}
	if output, err := command.CombinedOutput(); err != nil {
		t.Errorf("%s: %v: %s in\n%s", page, err, output, text)
		return nil
	}
	noted, err := os.ReadFile(filepath.Join(folder, "noted"))
	if err != nil {
		t.Errorf("%s has a block without a command:\n%s", page, text)
	}
	for line := range strings.Lines(string(noted)) {
		commands = append(commands, strings.Split(strings.TrimSuffix(strings.TrimSpace(line), "\037"), "\037"))
	}
	return commands
}

func tryCommand(t *testing.T, page string, words []string, runtime *chart.Chart) {
	t.Helper()
	switch {
	case words[0] == "slipway":
		var problems bytes.Buffer
		if code := cli.Execute(t.Context(), append(words[1:len(words):len(words)], "--help"), io.Discard, &problems); code != 0 {
			t.Errorf("%s: %s: %s", page, strings.Join(words, " "), problems.String())
		}
	case words[0] == "helm" && words[1] == "upgrade":
		values := map[string]any{}
		for i, word := range words {
			if word != "--set" {
				continue
			}
			if err := strvals.ParseInto(words[i+1], values); err != nil {
				t.Errorf("%s: %v", page, err)
			}
		}
		if len(values) > 0 {
			tryRender(t, page, values, runtime)
		}
	}
}

// tryValues renders the chart with the values of a page; other YAML is left alone.
func tryValues(t *testing.T, page, text string, runtime *chart.Chart) {
	t.Helper()
	values := map[string]any{}
	if err := yaml.Unmarshal([]byte(text), &values); err != nil {
		t.Errorf("%s: %v", page, err)
		return
	}
	for key := range values {
		if key != "global" && key != "agent" && key != "edge" && key != "installer" {
			return
		}
	}
	for _, flag := range []string{"global.platform.url=https://slipway.example.com", "global.platform.userToken.token=x", "global.runtime.name=prod"} {
		if err := strvals.ParseInto(flag, values); err != nil {
			t.Fatal(err)
		}
	}
	if global := values["global"].(map[string]any); strings.Contains(text, "ingress:") {
		ingress := global["runtime"].(map[string]any)["ingress"].(map[string]any)
		for key, value := range map[string]any{"enabled": true, "className": "nginx", "hosts": []any{"prod.example.com"}} {
			if _, given := ingress[key]; !given {
				ingress[key] = value
			}
		}
	}
	tryRender(t, page, values, runtime)
}

func tryRender(t *testing.T, page string, values map[string]any, runtime *chart.Chart) {
	t.Helper()
	if _, err := runtime.Render(t.Context(), values, chart.Release{Name: "slipway-runtime", Namespace: "slipway", Kubernetes: "v1.36.0"}); err != nil {
		t.Errorf("%s: %v", page, err)
	}
}
