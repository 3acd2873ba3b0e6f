package argoapi

import (
	"context"
	"encoding/json"
	"time"

	"connectrpc.com/connect"

	"slipway.dev/slipway/internal/gitops/tracking"
	"slipway.dev/slipway/internal/wire/argocd"
	"slipway.dev/slipway/internal/wire/runtimev1"
)

// managedResources returns the live objects beside those of a sync. The argocd
// command computes the difference of both itself. The second is what the API
// server would store, from a dry run, so that defaults are no difference. Values
// of Secrets are masked.
func (s *Service) managedResources(ctx context.Context, in argocd.Request) (any, error) {
	found, err := s.differences(ctx, in, "")
	if err != nil {
		return nil, err
	}
	items := []any{}
	for _, object := range found.GetObjects() {
		ref := object.GetRef()
		if !selected(in, ref, in.Text("name")) {
			continue
		}
		live, target := text(object.GetLive()), text(object.GetPredicted())
		items = append(items, map[string]any{
			"group": ref.GetGroup(), "kind": ref.GetKind(), "namespace": ref.GetNamespace(), "name": ref.GetName(),
			"liveState": live, "targetState": target, "normalizedLiveState": live, "predictedLiveState": target, "modified": object.GetAction() != "same",
		})
	}
	return map[string]any{"items": items}, nil
}

// differences compares the Application of a request with Git.
func (s *Service) differences(ctx context.Context, in argocd.Request, revision string) (*runtimev1.DiffResponse, error) {
	if _, err := s.application(ctx, in); err != nil {
		return nil, err
	}
	found, err := s.Applications.Diff(ctx, connect.NewRequest(&runtimev1.DiffRequest{Ref: refOf(in), Revision: revision}))
	if err != nil {
		return nil, err
	}
	return found.Msg, nil
}

// text is the state of an object: null if there is none.
func text(manifest []byte) string {
	if len(manifest) == 0 {
		return "null"
	}
	return string(manifest)
}

// selected reports whether a request that may name a group, kind, namespace and
// name takes an object. Fields that are not set take all.
func selected(in argocd.Request, ref *runtimev1.ObjectRef, name string) bool {
	takes := func(wanted, is string) bool { return wanted == "" || wanted == is }
	return takes(in.Text("group"), ref.GetGroup()) && takes(in.Text("kind"), ref.GetKind()) &&
		takes(in.Text("namespace"), ref.GetNamespace()) && takes(name, ref.GetName())
}

// manifests returns what a sync would apply.
func (s *Service) manifests(ctx context.Context, in argocd.Request) (any, error) {
	if in.Has("revisions") {
		return nil, notServed("manifests of single sources are not served: change their targetRevision in the Application")
	}
	found, err := s.differences(ctx, in, in.Text("revision"))
	if err != nil {
		return nil, err
	}
	manifests := []string{}
	for _, object := range found.GetObjects() {
		if len(object.GetPredicted()) > 0 {
			manifests = append(manifests, string(object.GetPredicted()))
		}
	}
	return map[string]any{"manifests": manifests, "revision": found.GetRevision()}, nil
}

// resource returns one live object.
func (s *Service) resource(ctx context.Context, in argocd.Request) (any, error) {
	if _, err := s.application(ctx, in); err != nil {
		return nil, err
	}
	found, err := s.Applications.GetResource(ctx, connect.NewRequest(&runtimev1.GetResourceRequest{Ref: refOf(in), Object: objectOf(in)}))
	if err != nil {
		return nil, err
	}
	return map[string]any{"manifest": text(found.Msg.GetLive())}, nil
}

// resourceTree returns the objects of an Application and those they own.
func (s *Service) resourceTree(ctx context.Context, in argocd.Request) (any, error) {
	if _, err := s.application(ctx, in); err != nil {
		return nil, err
	}
	found, err := s.Applications.GetTree(ctx, connect.NewRequest(&runtimev1.GetTreeRequest{Ref: refOf(in)}))
	if err != nil {
		return nil, err
	}
	byUID := map[string]*runtimev1.ObjectRef{}
	for _, node := range found.Msg.GetNodes() {
		byUID[node.GetRef().GetUid()] = node.GetRef()
	}
	nodes := []any{}
	for _, node := range found.Msg.GetNodes() {
		if !selected(in, node.GetRef(), in.Text("name")) {
			continue
		}
		nodes = append(nodes, nodeOf(node, byUID))
	}
	return map[string]any{"nodes": nodes}, nil
}

// nodeOf converts an object of a tree.
func nodeOf(node *runtimev1.Node, byUID map[string]*runtimev1.ObjectRef) map[string]any {
	document := refDocument(node.GetRef())
	parents := []any{}
	for _, uid := range node.GetParents() {
		parents = append(parents, refDocument(byUID[uid]))
	}
	info := []any{}
	for name, value := range node.GetInfo() {
		info = append(info, map[string]any{"name": name, "value": value})
	}
	document["parentRefs"], document["info"], document["resourceVersion"] = parents, info, node.GetResourceVersion()
	if node.GetHealth() != "" {
		document["health"] = map[string]any{"status": node.GetHealth(), "message": node.GetHealthMessage()}
	}
	if node.GetCreatedAt() != nil {
		document["createdAt"] = node.GetCreatedAt().AsTime().Format(time.RFC3339)
	}
	return document
}

// refDocument converts the identity of an object.
func refDocument(ref *runtimev1.ObjectRef) map[string]any {
	return map[string]any{
		"group": ref.GetGroup(), "version": ref.GetVersion(), "kind": ref.GetKind(),
		"namespace": ref.GetNamespace(), "name": ref.GetName(), "uid": ref.GetUid(),
	}
}

// revisionMetadata returns author, date and message of a commit.
func (s *Service) revisionMetadata(ctx context.Context, in argocd.Request) (any, error) {
	manifest, err := s.application(ctx, in)
	if err != nil {
		return nil, err
	}
	var app summary
	if err := json.Unmarshal(manifest, &app); err != nil {
		return nil, err
	}
	commit, err := s.Applications.Commit(ctx, tracking.App{Namespace: app.Metadata.Namespace, Name: app.Metadata.Name}, in.Text("revision"))
	if err != nil || commit == nil {
		return nil, notServed("the commit %s cannot be read", in.Text("revision"))
	}
	return map[string]any{"author": commit.Author, "date": commit.When.Format(time.RFC3339), "message": commit.Message}, nil
}
