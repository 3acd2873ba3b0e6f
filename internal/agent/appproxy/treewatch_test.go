package appproxy_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/encoding/protojson"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/agent/appproxy"
	"slipway.dev/slipway/internal/gitops/tracking"
	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
	"slipway.dev/slipway/internal/wire/runtimev1"
)

// grownShop is an Application with a ConfigMap and a Deployment, and a ConfigMap
// and a Pod of another owner beside them.
const grownShop = `apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: shop}
spec:
  project: default
  source: {repoURL: https://git.example/shop.git, path: "."}
  destination: {namespace: NAMESPACE}
status:
  sync: {status: Synced}
  health: {status: Healthy}
  resources:
  - {version: v1, kind: ConfigMap, namespace: NAMESPACE, name: settings, status: Synced}
  - {group: apps, version: v1, kind: Deployment, namespace: NAMESPACE, name: web, status: Synced, health: {status: Healthy}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, labels: {slipway.dev/app: LABEL}, annotations: {argocd.argoproj.io/tracking-id: "shop:/ConfigMap:NAMESPACE/settings"}}
data: {value: "1"}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {slipway.dev/app: LABEL}, annotations: {argocd.argoproj.io/tracking-id: "shop:apps/Deployment:NAMESPACE/web"}}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: "slipway.dev/demo:v1", ports: [{containerPort: 8080}]}]}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: theirs}
---
apiVersion: v1
kind: Pod
metadata: {name: theirs}
spec: {containers: [{name: web, image: "slipway.dev/demo:v1"}]}
`

// treeStream is a stream of trees that is read as it comes.
type treeStream struct {
	messages chan *runtimev1.WatchTreeResponse
	// err is why it ended, once messages is closed.
	err   error
	close context.CancelFunc
}

func (w *world) watchTree(t *testing.T) *treeStream {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	t.Cleanup(cancel)
	stream := must.Get(w.apps(t).WatchTree(ctx, connect.NewRequest(&runtimev1.WatchTreeRequest{Ref: shopRef()})))(t)
	read := &treeStream{messages: make(chan *runtimev1.WatchTreeResponse, 1000), close: cancel}
	go func() {
		defer close(read.messages)
		defer stream.Close()
		for stream.Receive() {
			read.messages <- stream.Msg()
		}
		read.err = stream.Err()
	}()
	return read
}

// until reads trees until one is as it should be.
func (s *treeStream) until(t *testing.T, what string, holds func(nodes map[string]*runtimev1.Node) bool) map[string]*runtimev1.Node {
	t.Helper()
	var last *runtimev1.WatchTreeResponse
	expired := time.After(patience)
	for {
		select {
		case message, open := <-s.messages:
			if !open {
				t.Fatalf("%s: the stream ended: %v", what, s.err)
			}
			if message.GetTree() == nil {
				continue
			}
			last = message
			if nodes := byName(message.GetTree()); holds(nodes) {
				return nodes
			}
		case <-expired:
			t.Fatalf("%s: the last tree is %s", what, protojson.Format(last))
		}
	}
}

// byName are the nodes of a tree; the Pods of the Deployment are one, as Pod.
func byName(tree *runtimev1.ResourceTree) map[string]*runtimev1.Node {
	nodes := map[string]*runtimev1.Node{}
	for _, node := range tree.GetNodes() {
		if len(node.GetParents()) > 0 {
			nodes[node.GetRef().GetKind()] = node
			continue
		}
		nodes[node.GetRef().GetKind()+"/"+node.GetRef().GetName()] = node
	}
	return nodes
}

// isCalm is a tree whose Pod runs, after which nothing changes by itself.
func isCalm(nodes map[string]*runtimev1.Node) bool {
	return len(nodes) == 4 && nodes["Pod"].GetHealth() == "Healthy" && nodes["ReplicaSet"].GetInfo()["ready"] == "1/1"
}

// patchConfig changes a ConfigMap.
func (w *world) patchConfig(t *testing.T, name, value string) {
	t.Helper()
	patch := fmt.Sprintf(`{"data":{"value":%q}}`, value)
	must.Get(w.Client.CoreV1().ConfigMaps(w.control).Patch(t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}))(t)
}

func (w *world) growShop(t *testing.T) {
	t.Helper()
	label := tracking.App{Namespace: w.control, Name: "shop"}.Label()
	w.apply(t, strings.ReplaceAll(grownShop, "LABEL", label))
	w.WaitForRollout(t, w.control, "web", patience)
	w.awaitPod(t, "theirs")
}

// TestWatchTree: the tree comes at once, and again when an object of the
// Application or one that these own changes, and when the Application does; nothing
// comes for objects of other owners; the stream reports the end.
func TestWatchTree(t *testing.T) {
	w := newWorld(t)
	w.growShop(t)
	stream := w.watchTree(t)
	calm := stream.until(t, "at first", isCalm)

	w.patchConfig(t, "settings", "2")
	stream.until(t, "a ConfigMap of the Application", func(nodes map[string]*runtimev1.Node) bool {
		version := nodes["ConfigMap/settings"].GetResourceVersion()
		return version != "" && version != calm["ConfigMap/settings"].GetResourceVersion()
	})
	must.Do(t, w.Client.CoreV1().Pods(w.control).Delete(t.Context(), calm["Pod"].GetRef().GetName(), metav1.DeleteOptions{}))
	stream.until(t, "a Pod that is made again", func(nodes map[string]*runtimev1.Node) bool {
		return isCalm(nodes) && nodes["Pod"].GetRef().GetUid() != calm["Pod"].GetRef().GetUid()
	})
	w.requireQuiet(t, stream)

	status := fmt.Sprintf(`{"status":{"resources":[{"version":"v1","kind":"ConfigMap","namespace":%q,"name":"settings","status":"OutOfSync"}]}}`, w.control)
	kubetest.Patch(t, w.Dynamic.Resource(v1alpha1.ApplicationResource()).Namespace(w.control), "shop", status)
	stream.until(t, "the Application itself", func(nodes map[string]*runtimev1.Node) bool {
		return len(nodes) == 1 && nodes["ConfigMap/settings"].GetSync() == "OutOfSync"
	})
	must.Do(t, w.Dynamic.Resource(v1alpha1.ApplicationResource()).Namespace(w.control).Delete(t.Context(), "shop", metav1.DeleteOptions{}))
	var last *runtimev1.WatchTreeResponse
	for message := range stream.messages {
		last = message
	}
	if stream.err != nil || !last.GetDeleted() {
		t.Errorf("at the end: %v, %v", last, stream.err)
	}
	missing := w.watchTree(t)
	if message, open := <-missing.messages; open || connect.CodeOf(missing.err) != connect.CodeNotFound {
		t.Errorf("one that is not there: %v, %v", message, missing.err)
	}
	w.requireUnfollowed(t)
}

// requireQuiet: for a second others change their objects, and nothing is sent.
func (w *world) requireQuiet(t *testing.T, stream *treeStream) {
	t.Helper()
	// What the last change still brings comes first: the one after that is known.
	w.patchConfig(t, "settings", "3")
	before := stream.until(t, "before it is quiet", func(nodes map[string]*runtimev1.Node) bool {
		is, err := w.Client.CoreV1().ConfigMaps(w.control).Get(t.Context(), "settings", metav1.GetOptions{})
		return err == nil && isCalm(nodes) && nodes["ConfigMap/settings"].GetResourceVersion() == is.ResourceVersion
	})
	end := time.After(1200 * time.Millisecond)
	often := time.NewTicker(50 * time.Millisecond)
	defer often.Stop()
	for turn, quiet := 0, true; quiet; turn++ {
		w.patchConfig(t, "theirs", fmt.Sprint(turn))
		patch := fmt.Sprintf(`{"metadata":{"labels":{"turn":"%d"}}}`, turn)
		must.Get(w.Client.CoreV1().Pods(w.control).Patch(t.Context(), "theirs", types.MergePatchType, []byte(patch), metav1.PatchOptions{}))(t)
		select {
		case message := <-stream.messages:
			if message.GetTree() != nil {
				t.Fatalf("nothing of the Application changed, and there came %s after %v", protojson.Format(message), before)
			}
		case <-often.C:
		case <-end:
			quiet = false
		}
	}
}

// requireUnfollowed: without a viewer there are no watches.
func (w *world) requireUnfollowed(t *testing.T) {
	t.Helper()
	programs.Until(t, "no watches are left", func() bool { return w.service.Following() == 0 })
}

// TestManyWatchTrees: all viewers of a tree share the watches, one too many is
// refused, and there is room again when one leaves.
func TestManyWatchTrees(t *testing.T) {
	w := newWorld(t)
	w.growShop(t)
	var streams []*treeStream
	for range appproxy.MaxTreeViewers {
		stream := w.watchTree(t)
		stream.until(t, "one of many", func(nodes map[string]*runtimev1.Node) bool { return len(nodes) == 4 })
		streams = append(streams, stream)
	}
	// Pods, ReplicaSets and Jobs of the namespace; ConfigMaps and Deployments of
	// the Application.
	if count := w.service.Following(); count != 5 {
		t.Errorf("there are %d watches for %d people", count, len(streams))
	}
	refused := w.watchTree(t)
	if message, open := <-refused.messages; open || connect.CodeOf(refused.err) != connect.CodeResourceExhausted {
		t.Errorf("one too many: %v, %v", message, refused.err)
	}
	for _, stream := range streams {
		stream.close()
		for range stream.messages { // until it has ended
		}
	}
	w.requireUnfollowed(t)
	w.watchTree(t).until(t, "afterwards", func(nodes map[string]*runtimev1.Node) bool { return len(nodes) == 4 })
}
