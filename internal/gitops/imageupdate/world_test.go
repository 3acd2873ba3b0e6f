package imageupdate_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ociremote "oras.land/oras-go/v2/registry/remote"

	"slipway.dev/slipway/internal/gitops/argotest"
	"slipway.dev/slipway/internal/gitops/gittest"
	"slipway.dev/slipway/internal/gitops/imageupdate"
	"slipway.dev/slipway/internal/gitops/source"
	"slipway.dev/slipway/internal/gitops/source/credential"
	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
)

const prefix = "argocd-image-updater.argoproj.io/"

// world is a cluster, a registry (Debian's docker-registry) and a Git server.
type world struct {
	*kubetest.Cluster
	namespace string
	registry  string
	git       *gittest.Server
	sources   *source.Sources
	// credentials are those of repositories.
	credentials *credential.Store
	pushed      chan string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	cluster := kubetest.Shared(t)
	argotest.Install(t, cluster)
	w := &world{
		Cluster: cluster, namespace: cluster.Namespace(t), registry: programs.FreeAddress(t).String(), git: gittest.Serve(t), pushed: make(chan string, 100),
	}
	programs.Registry(t, "tcp", w.registry, "", "")
	store := &credential.Store{}
	store.Set(types.NamespacedName{Name: "registry"}, credential.Credential{
		Scope: credential.Prefix, Kind: credential.OCI, URL: "oci://" + w.registry, InsecureOCIForceHTTP: true,
	})
	w.credentials = store
	w.sources = must.Get(source.New(source.Options{Folder: t.TempDir(), Credentials: store}))(t)
	t.Cleanup(func() { _ = w.sources.Close() })
	return w
}

// start runs a controller until the end of the test, or until the function is called.
func (w *world) start(t *testing.T, settle time.Duration) (*imageupdate.Controller, func()) {
	t.Helper()
	controller := imageupdate.New(imageupdate.Options{
		Cluster: w.Cluster.Cluster, Sources: w.sources, ControlNamespace: w.namespace, Namespaces: []string{w.namespace},
		Interval: 200 * time.Millisecond, Settle: settle, Folder: t.TempDir(), Pushed: func(url string) { w.pushed <- url },
		Reporter: kube.Reporter{Controller: "slipway.dev/test", Instance: "test"},
	})
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = controller.Run(ctx) })
	stop := sync.OnceFunc(func() { cancel(); running.Wait() })
	t.Cleanup(stop)
	return controller, stop
}

// push pushes an image with a date to the registry, and returns its digest.
func (w *world) push(t testing.TB, repository, tag string, built time.Time) string {
	t.Helper()
	ctx := t.Context()
	to := must.Get(ociremote.NewRepository(w.registry + "/" + repository))(t)
	to.PlainHTTP = true
	config := must.Get(json.Marshal(ocispec.Image{
		Created: &built, Platform: ocispec.Platform{OS: "linux", Architecture: "amd64"},
		Config: ocispec.ImageConfig{Labels: map[string]string{"org.opencontainers.image.revision": "rev-" + tag}},
	}))(t)
	described := func(kind string, content []byte) ocispec.Descriptor {
		return ocispec.Descriptor{MediaType: kind, Digest: digest.FromBytes(content), Size: int64(len(content))}
	}
	configOf := described(ocispec.MediaTypeImageConfig, config)
	must.Do(t, to.Blobs().Push(ctx, configOf, bytes.NewReader(config)))
	manifest := must.Get(json.Marshal(ocispec.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest, Config: configOf, Layers: []ocispec.Descriptor{},
		Annotations: map[string]string{"tag": tag},
	}))(t)
	of := described(ocispec.MediaTypeImageManifest, manifest)
	must.Do(t, to.Manifests().PushReference(ctx, of, bytes.NewReader(manifest), tag))
	return of.Digest.String()
}

// application is one that a test creates.
type application struct {
	name, path, revision, kind, repoURL string
	annotations                         map[string]string
	own                                 map[string]string // annotations without the prefix
	images                              []string
	project                             string
}

// apply creates an Application with the status that the reconciler would write. REG is
// the registry.
func (w *world) apply(t *testing.T, a application) {
	t.Helper()
	annotations := map[string]string{prefix + "write-back-method": "git"}
	for key, value := range a.annotations {
		annotations[prefix+key] = strings.ReplaceAll(value, "REG", w.registry)
	}
	maps.Copy(annotations, a.own)
	maps.DeleteFunc(annotations, func(_, value string) bool { return value == "" })
	object := map[string]any{
		"apiVersion": "argoproj.io/v1alpha1", "kind": "Application", "metadata": map[string]any{"name": a.name, "annotations": annotations},
		"spec": map[string]any{
			"project": orDefault(a.project, "default"), "destination": map[string]any{"server": "https://kubernetes.default.svc", "namespace": "x"},
			"source": map[string]any{"repoURL": a.repoURL, "path": a.path, "targetRevision": orDefault(a.revision, "main")},
		},
	}
	w.Cluster.Apply(t, w.namespace, string(must.Get(json.Marshal(object))(t)))
	images := []string{}
	for _, image := range a.images {
		images = append(images, strings.ReplaceAll(image, "REG", w.registry))
	}
	status := must.Get(json.Marshal(map[string]any{"status": map[string]any{"sourceType": a.kind, "summary": map[string]any{"images": images}}}))(t)
	must.Get(argotest.Applications(w.Cluster, w.namespace).Patch(t.Context(), a.name, types.MergePatchType, status, metav1.PatchOptions{}, "status"))(t)
}

func orDefault(text, other string) string {
	if text == "" {
		return other
	}
	return text
}

// awaitFile waits for the content of a file on a branch.
func (w *world) awaitFile(t *testing.T, repository *gittest.Repository, branch, name, want string) {
	t.Helper()
	want = strings.ReplaceAll(want, "REG", w.registry)
	programs.Eventually(t, func(context.Context) error {
		if !strings.Contains(repository.Git(t, "branch", "--list", branch), branch) {
			return fmt.Errorf("there is no branch %s", branch)
		}
		if files := repository.Git(t, "ls-tree", "-r", "--name-only", branch); !strings.Contains("\n"+files+"\n", "\n"+name+"\n") {
			return fmt.Errorf("there is no file %s among %s", name, files)
		}
		if got := repository.Git(t, "show", branch+":"+name); strings.TrimSpace(got) != strings.TrimSpace(want) {
			return fmt.Errorf("%s is\n%s\nwant\n%s", name, got, want)
		}
		return nil
	})
}

// awaitEvent waits for an Event about an Application.
func (w *world) awaitEvent(t *testing.T, name, reason, part string) {
	t.Helper()
	programs.Eventually(t, func(ctx context.Context) error {
		events, err := w.Client.EventsV1().Events(w.namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		seen := ""
		for _, event := range events.Items {
			if event.Regarding.Name == name && event.Reason == reason && strings.Contains(event.Note, part) {
				return nil
			}
			if event.Regarding.Name == name {
				seen += event.Reason + ": " + event.Note + "\n"
			}
		}
		return fmt.Errorf("there is no Event %s with %q about %s, but\n%s", reason, part, name, seen)
	})
}

// commits counts the commits of a branch.
func commits(t *testing.T, repository *gittest.Repository, branch string) string {
	t.Helper()
	return strings.TrimSpace(repository.Git(t, "rev-list", "--count", branch))
}
