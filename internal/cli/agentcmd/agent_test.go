package agentcmd_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/cli/clitest"
	"slipway.dev/slipway/internal/config"
	"slipway.dev/slipway/internal/must"
)

// TestAgentCommand: options from all sources, and what is wrong with them.
func TestAgentCommand(t *testing.T) {
	for _, c := range []struct {
		name, line, env string
		code            int
		stderr          string
	}{
		{"unknown option", "agent --applications.worker=3", "", 2,
			"slipway: unknown option --applications.worker on the command line: did you mean --applications.workers?\n"},
		{"unknown variable", "agent", "SLIPWAY_RENDER_TIMOUT=1s", 2,
			"slipway: unknown option SLIPWAY_RENDER_TIMOUT in the environment: did you mean SLIPWAY_RENDER_TIMEOUT?\n"},
		{"not valid", "agent --applications.workers=0", "", 2, "slipway: applications.workers is 0: choose a number from 1 to 256\n"},
		{"a word", "agent now", "", 2, "slipway: unexpected word \"now\" on the command line: slipway agent takes only options\n"},
		{"no cluster", "agent", "KUBECONFIG=", 2,
			"slipway: kubernetes: no API server to connect to: run in a cluster, set KUBECONFIG, or set the endpoint\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			clitest.Clean(t)
			if c.env != "" {
				clitest.Clean(t, c.env)
			}
			got := clitest.Run(t, c.line)
			lines := strings.SplitAfter(got.Stderr, "\n")
			if last := lines[max(0, len(lines)-2)]; got.Code != c.code || last != c.stderr {
				t.Errorf("\n got %+v\nwant %d %s", got, c.code, c.stderr)
			}
		})
	}
}

// TestAgentHelp: every option is in the help, and what is printed can be read
// again.
func TestAgentHelp(t *testing.T) {
	clitest.Clean(t)
	got := clitest.Run(t, "agent --help")
	for _, option := range config.AgentOptions() {
		if !strings.Contains(got.Stdout, option.Flag()+" ") {
			t.Errorf("%s is not in the help", option.Flag())
		}
	}
	printed := clitest.Run(t, "agent --print-config --applications.namespaces=a,b")
	if got.Code != 0 || printed.Code != 0 {
		t.Fatalf("got %+v and %+v", got, printed)
	}
	file := filepath.Join(t.TempDir(), "agent.yaml")
	must.Do(t, os.WriteFile(file, []byte(printed.Stdout), 0o600))
	if again := clitest.Run(t, "agent --print-config --configFile="+file); again != printed {
		t.Errorf("printed\n%s\nread again\n%+v", printed.Stdout, again)
	}
}

// TestGitopsExamples: every manifest of the page for users is one that the agent
// takes.
func TestGitopsExamples(t *testing.T) {
	page, err := os.ReadFile("../../../docs/gitops.md")
	must.Do(t, err)
	kinds := map[string]int{}
	for i, block := range strings.Split(string(page), "```") {
		text, isYAML := strings.CutPrefix(block, "yaml\n")
		if i%2 == 0 || !isYAML {
			continue
		}
		var object map[string]any
		if err := yaml.UnmarshalStrict([]byte(text), &object); err != nil {
			t.Fatalf("%v in:\n%s", err, text)
		}
		var refused []refusal.Refusal
		kind, _ := object["kind"].(string)
		kinds[kind]++
		switch kind {
		case v1alpha1.KindApplication:
			_, refused, err = v1alpha1.Decode(object)
		case v1alpha1.KindAppProject:
			_, refused, err = v1alpha1.DecodeProject(object)
		case v1alpha1.KindApplicationSet:
			_, refused, err = v1alpha1.DecodeSet(object)
		}
		if err != nil || len(refused) > 0 {
			t.Errorf("%v, %s in:\n%s", err, refusal.Summary(refused), text)
		}
	}
	for _, kind := range []string{v1alpha1.KindApplication, v1alpha1.KindAppProject, v1alpha1.KindApplicationSet, "Secret"} {
		if kinds[kind] == 0 {
			t.Errorf("there is no example of a %s", kind)
		}
	}
}
