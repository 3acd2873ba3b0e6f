package sharedrepo_test

import (
	"strings"
	"testing"

	"slipway.dev/slipway/internal/agent/sharedrepo"
	"slipway.dev/slipway/internal/gitops/gittest"
	"slipway.dev/slipway/internal/gitops/source/remote"
	"slipway.dev/slipway/internal/must"
)

// TestWriteClusters: R116: each managed cluster has a file with an Application for the
// resources of all clusters, which moves with it and ends with it. Names that are none
// of Kubernetes, or of the runtime's own files, get others. What users wrote stays.
func TestWriteClusters(t *testing.T) {
	origin := empty(t, gittest.Serve(t))
	repository := open(t, origin.URL(), remote.Access{})
	must.Get(repository.Seed(t.Context(), "demo", "slipway"))(t)
	change(t, repository, func(files sharedrepo.Files) error {
		if err := files.Write("runtimes/demo/taken.yaml", []byte("kind: Application # of a user\n")); err != nil {
			return err
		}
		return files.Write("runtimes/demo/broken.yaml", []byte("{"))
	})
	writes := func(clusters map[string]string) string {
		t.Helper()
		return must.Get(repository.WriteClusters(t.Context(), "demo", clusters))(t)
	}
	first := writes(map[string]string{"far": "https://far.example.com", "taken": "https://taken.example.com", "in-cluster": "https://a", "arn:aws:eks:Prod": "https://b"})
	want := `runtimes/demo/arn-aws-eks-pro-a6b246c6.yaml
runtimes/demo/broken.yaml
runtimes/demo/far.yaml
runtimes/demo/in-cluster-c0ec4bee.yaml
runtimes/demo/in-cluster.yaml
runtimes/demo/taken.yaml`
	if files := origin.Git(t, "ls-tree", "-r", "--name-only", "main", "runtimes/"); files != want {
		t.Errorf("the files are\n%s\nand not\n%s", files, want)
	}
	if text := origin.Git(t, "show", "main:runtimes/demo/far.yaml"); text != strings.Replace(strings.TrimSpace(farApplication), "REPOSITORY", origin.URL(), 1) {
		t.Errorf("the file of a cluster is\n%s", text)
	}
	if got := origin.Git(t, "show", "main:runtimes/demo/taken.yaml"); got != "kind: Application # of a user" {
		t.Errorf("the file of a user is %s", got)
	}

	change(t, repository, func(files sharedrepo.Files) error {
		return sharedrepo.EditManifest(files, "runtimes/demo/far.yaml", func(object map[string]any) error {
			object["spec"].(map[string]any)["destination"].(map[string]any)["namespace"] = "ours"
			return nil
		})
	})
	moved := writes(map[string]string{"far": "https://moved.example.com"})
	text := origin.Git(t, "show", "main:runtimes/demo/far.yaml")
	if moved == first || !strings.Contains(text, "server: https://moved.example.com") || !strings.Contains(text, "namespace: ours") {
		t.Errorf("a cluster that moved has\n%s", text)
	}
	if again := writes(map[string]string{"far": "https://moved.example.com"}); again != moved {
		t.Error("a commit changes nothing")
	}
	writes(nil)
	if files := origin.Git(t, "ls-tree", "-r", "--name-only", "main", "runtimes/"); files != "runtimes/demo/broken.yaml\nruntimes/demo/in-cluster.yaml\nruntimes/demo/taken.yaml" {
		t.Errorf("without clusters the files are\n%s", files)
	}
}

const farApplication = `
apiVersion: argoproj.io/v1alpha1
kind: Application
metadata:
  annotations:
    slipway.dev/cluster: far
  labels:
    slipway.dev/entity: internal-config
    slipway.dev/internal: "true"
    slipway.dev/runtime: demo
  name: demo-far
spec:
  destination:
    namespace: default
    server: https://far.example.com
  project: default
  source:
    directory:
      include: '{all-runtimes-all-clusters/*,runtimes/demo/*}'
      recurse: true
    path: resources
    repoURL: REPOSITORY
    targetRevision: HEAD
  syncPolicy:
    automated:
      allowEmpty: true
      prune: true
      selfHeal: true
`
