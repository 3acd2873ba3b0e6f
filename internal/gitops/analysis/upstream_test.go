package analysis_test

import (
	"context"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"slipway.dev/slipway/api/rollouts/v1alpha1"
	"slipway.dev/slipway/internal/gitops/analysis"
	"slipway.dev/slipway/internal/gitops/render"
	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
)

const (
	runsArchive = "testdata/runs.txtar"
	// The variables of make argo-rollouts: the compiled controller of Argo Rollouts,
	// and the folder of its module.
	variableController = "ARGO_ROLLOUTS"
	variableModule     = "ARGO_ROLLOUTS_MODULE"
)

// TestArgoRollouts: for each run the controller writes the sequence of status that Argo
// Rollouts' own controller writes. With that controller at hand its sequences are
// recorded first.
func TestArgoRollouts(t *testing.T) {
	archive := must.Get(txtar.ParseFile(runsArchive))(t)
	scenarios, recorded := readScenarios(t, archive)
	if program := os.Getenv(variableController); program != "" {
		recorded = recordArgoRollouts(t, program, scenarios)
		writeSequences(t, archive, recorded)
	}
	cluster := kubetest.Shared(t)
	cluster.Define(t, string(must.Get(v1alpha1.CRDs())(t)))
	startController(t, cluster, analysis.Options{})
	for name, own := range observeAll(t, cluster, scenarios) {
		if want := recorded[name]; want != own {
			t.Errorf("%s: Argo Rollouts' sequence is\n%sand ours\n%s", name, want, own)
		}
	}
}

// readScenarios returns the runs of the archive, and the recorded sequences.
func readScenarios(t *testing.T, archive *txtar.Archive) ([]scenario, map[string]string) {
	t.Helper()
	var scenarios []scenario
	recorded := map[string]string{}
	for _, file := range archive.Files {
		name, part, _ := strings.Cut(file.Name, ".")
		switch part {
		case "yaml":
			scenarios = append(scenarios, scenario{name: name, spec: string(file.Data)})
		case "terminate":
			last := &scenarios[len(scenarios)-1]
			last.terminateAfter = int32(must.Get(strconv.Atoi(strings.TrimSpace(string(file.Data))))(t))
		case "sequence":
			recorded[name] = string(file.Data)
		default:
			t.Fatalf("the archive has %s", file.Name)
		}
	}
	return scenarios, recorded
}

// writeSequences puts sequences behind the runs of the archive.
func writeSequences(t *testing.T, archive *txtar.Archive, recorded map[string]string) {
	t.Helper()
	files := archive.Files
	archive.Files = nil
	for i, file := range files {
		if strings.HasSuffix(file.Name, ".sequence") {
			continue
		}
		archive.Files = append(archive.Files, file)
		name, _, _ := strings.Cut(file.Name, ".")
		if i+1 < len(files) && strings.HasPrefix(files[i+1].Name, name+".terminate") {
			continue
		}
		archive.Files = append(archive.Files, txtar.File{Name: name + ".sequence", Data: []byte(recorded[name])})
	}
	must.Do(t, os.WriteFile(runsArchive, txtar.Format(archive), 0o644))
}

// recordArgoRollouts runs Argo Rollouts' controller on a cluster of its own with its
// definitions, and returns its sequences.
func recordArgoRollouts(t *testing.T, program string, scenarios []scenario) map[string]string {
	t.Helper()
	cluster := kubetest.Start(t)
	cluster.DefineFiles(t, filepath.Join(os.Getenv(variableModule), "manifests/crds/*-crd.yaml"))
	command := exec.Command(program, "--kubeconfig="+cluster.Kubeconfig, "--leader-elect=false", "--metricsPort=9290", "--healthzPort=9291")
	command.Env = programs.Environment(t)
	programs.Run(t, "the controller of Argo Rollouts", command)
	return observeAll(t, cluster, scenarios)
}

// startController runs a controller until the end of the test.
func startController(t *testing.T, cluster *kubetest.Cluster, options analysis.Options) {
	t.Helper()
	renderer := must.Get(render.New(render.Options{Command: []string{must.Get(os.Executable())(t), "render-worker"}}))(t)
	options.Cluster, options.Evaluator = cluster.Connect(t, kube.Rate(500, 1000)), renderer
	options.Reporter = kube.Reporter{Controller: "slipway.dev/test", Instance: "one"}
	if testing.Verbose() {
		options.Log = slog.New(slog.NewTextHandler(t.Output(), nil))
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	controller := analysis.NewController(options)
	go func() { ended <- controller.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the controller ended: %v", err)
		}
		if err := renderer.Close(); err != nil {
			t.Error(err)
		}
	})
}
