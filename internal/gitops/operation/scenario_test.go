package operation_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"golang.org/x/tools/txtar"

	"slipway.dev/slipway/internal/archives"
	"slipway.dev/slipway/internal/gitops/operation"
	"slipway.dev/slipway/internal/gitops/plan"
	"slipway.dev/slipway/internal/kube/kubetest"
)

// TestScenarios carries out the files of testdata against a real API server with
// a node. Each begins with what it shows, and has these sections in any number:
//
//	options   of the syncs that follow, one a line
//	to        the destination of the syncs that follow, if it is another
//	sync      manifests that are synced
//	delete    manifests of an Application that is deleted
//	did       what the sync before asked of the API server, how it ended, and its
//	          results
//	left      objects that must be there at this point, one a line
//	gone      objects that must not
//
// NAMESPACE stands for the namespace of the test. That a wave is ready before
// the next one is written is looked at in each of them.
func TestScenarios(t *testing.T) {
	archives.Each(t, "testdata/*.txtar", play)
}

func play(t *testing.T, archive *txtar.Archive) {
	t.Parallel()
	w := newWorld(t, kubetest.Shared(t))
	var options plan.Options
	did := ""
	for i := range archive.Files {
		file := &archive.Files[i]
		text := string(file.Data)
		switch file.Name {
		case "options":
			options = optionsOf(t, text)
		case "to":
			w.destination = strings.TrimSpace(strings.ReplaceAll(text, "NAMESPACE", w.namespace))
		case "sync":
			w.applier.taken()
			did = w.tell(w.sync(text, options))
		case "delete":
			w.applier.taken()
			run := w.run(w.build(text, options, plan.Deletion), nil)
			did = w.tell(w.finish(run), run)
		case "did":
			archives.Check(t, file, did)
		case "left", "gone":
			w.check(file.Name == "left", text)
		default:
			t.Fatalf("what is the section %q?", file.Name)
		}
	}
}

// replicaSet is the name of a ReplicaSet in a message. Its hash changes with the
// version of Kubernetes.
var replicaSet = regexp.MustCompile(`ReplicaSet "([a-z-]+)-[a-z0-9]+"`)

// tell returns what an operation did and how it ended.
func (w *world) tell(outcome operation.Outcome, run *operation.Run) string {
	lines := append(w.applier.taken(), fmt.Sprintf("= %s: %s", outcome.Phase, outcome.Message), "")
	text := strings.ReplaceAll(strings.Join(lines, "\n"), w.namespace, "NAMESPACE") + showResults(w, run.Results())
	return replicaSet.ReplaceAllString(text, `ReplicaSet "$1-HASH"`)
}

// check looks for objects: Job.batch/v1 NAMESPACE/migrate.
func (w *world) check(want bool, text string) {
	w.t.Helper()
	for line := range strings.Lines(strings.ReplaceAll(text, "NAMESPACE", w.namespace)) {
		kind, name, _ := strings.Cut(strings.TrimSpace(line), " ")
		kind, version, _ := strings.Cut(kind, "/")
		key := parseKey(kind + " " + name)
		object := w.get(key, version)
		isThere := object != nil && object.GetDeletionTimestamp() == nil
		if isThere != want {
			w.t.Errorf("%s: is it there? %t, want %t", key, isThere, want)
		}
	}
}

func optionsOf(t *testing.T, text string) plan.Options {
	var options plan.Options
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		set, ok := map[string]*bool{
			"prune": &options.AllowPrune, "allow-empty": &options.AllowEmpty, "create-namespace": &options.CreateNamespace,
			"PruneLast": &options.PruneLast, "Replace": &options.Replace, "Force": &options.Force, "dry-run": &options.DryRun,
			"SkipDryRunOnMissingResource": &options.SkipDryRunOnMissingResource,
		}[name]
		switch {
		case ok:
			*set = true
		case name == "propagation" && slices.Contains([]string{"Foreground", "Background", "Orphan"}, value):
			options.Propagation = metav1.DeletionPropagation(value)
		default:
			t.Fatalf("what is the option %q?", line)
		}
	}
	return options
}
