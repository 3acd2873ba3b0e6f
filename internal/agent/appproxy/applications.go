package appproxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"connectrpc.com/connect"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"slipway.dev/slipway/internal/gitops/inspect"
	"slipway.dev/slipway/internal/gitops/tracking"
	"slipway.dev/slipway/internal/wire"
	"slipway.dev/slipway/internal/wire/permission"
	"slipway.dev/slipway/internal/wire/runtimev1"
)

// maxListBytes bounds the manifests in one list. It is below maxResponseBytes,
// so that the error explains what to do.
const maxListBytes = 32 << 20

// ListApplications lists the Applications of the agent's namespaces that the
// user may get.
func (s *Service) ListApplications(ctx context.Context, request *connect.Request[runtimev1.ListApplicationsRequest]) (*connect.Response[runtimev1.ListApplicationsResponse], error) {
	if _, err := labels.Parse(request.Msg.GetSelector()); err != nil {
		return nil, connect.NewError(connect.CodeInvalidArgument, fmt.Errorf("the selector is none of Kubernetes: %w", err))
	}
	leave, err := acquire(ctx, s.reading)
	if err != nil {
		return nil, err
	}
	defer leave()
	can, err := s.accessOf(ctx)
	if err != nil {
		return nil, err
	}
	response := &runtimev1.ListApplicationsResponse{}
	size := 0
	// One request for each namespace: the agent may have rights in these only.
	for _, namespace := range s.namespaces() {
		if namespace == everyNamespace {
			namespace = metav1.NamespaceAll
		}
		apps, err := s.inspector.List(ctx, namespace, request.Msg.GetSelector())
		if err != nil {
			return nil, s.toConnectError(err, tracking.App{Namespace: namespace})
		}
		for _, app := range apps {
			if project := request.Msg.GetProject(); project != "" && app.Spec.ProjectName() != project {
				continue
			}
			if !can.decide(app, permission.Get).Allowed {
				continue
			}
			detail, err := detailOf(app, can)
			if err != nil {
				return nil, s.toConnectError(err, app.ID())
			}
			// The size is bounded while the list is built, not after.
			if size += len(detail.GetManifest()); size > maxListBytes {
				return nil, connect.NewError(connect.CodeResourceExhausted, errors.New("there are too many Applications for one response: narrow them with selector or project"))
			}
			response.Applications = append(response.Applications, detail)
		}
	}
	return connect.NewResponse(response), nil
}

// detailOf converts an Application to its message, without managed fields and
// values of Secrets.
func detailOf(app *inspect.Application, can access) (*runtimev1.ApplicationDetail, error) {
	manifest, err := manifestOf(inspect.ShownApplication(app))
	return &runtimev1.ApplicationDetail{Ref: refOf(app.ID()), Manifest: manifest, Rights: can.verbs(app)}, err
}

// refOf converts an identity to its message.
func refOf(app tracking.App) *runtimev1.ApplicationRef {
	return &runtimev1.ApplicationRef{Namespace: app.Namespace, Name: app.Name}
}

// manifestOf encodes an object as JSON; nil for nil. The caller masks it first.
func manifestOf(object *unstructured.Unstructured) ([]byte, error) {
	if object == nil {
		return nil, nil
	}
	return json.Marshal(object.Object)
}

// keyOf returns the object that a request names.
func keyOf(ref *runtimev1.ObjectRef) tracking.Key {
	return tracking.Key{Group: ref.GetGroup(), Kind: ref.GetKind(), Namespace: ref.GetNamespace(), Name: ref.GetName()}
}

// objectRef converts an object's identity to its message.
func objectRef(key tracking.Key, version string, uid types.UID) *runtimev1.ObjectRef {
	return &runtimev1.ObjectRef{Group: key.Group, Version: version, Kind: key.Kind, Namespace: key.Namespace, Name: key.Name, Uid: string(uid)}
}

// GetApplication returns one Application.
func (s *Service) GetApplication(ctx context.Context, request *connect.Request[runtimev1.GetApplicationRequest]) (*connect.Response[runtimev1.GetApplicationResponse], error) {
	app, err := s.application(ctx, request.Msg.GetRef())
	if err != nil {
		return nil, err
	}
	can, err := s.accessOf(ctx)
	if err != nil {
		return nil, err
	}
	detail, err := detailOf(app, can)
	if err != nil {
		return nil, s.toConnectError(err, app.ID())
	}
	// Without it the rest is right: a Lease that cannot be read must not hide an Application.
	if s.options.Owner != nil {
		detail.Owner, _ = s.options.Owner(ctx, app.ID().String())
	}
	return connect.NewResponse(&runtimev1.GetApplicationResponse{Application: detail}), nil
}

// GetTree returns the objects of an Application and the objects these own.
func (s *Service) GetTree(ctx context.Context, request *connect.Request[runtimev1.GetTreeRequest]) (*connect.Response[runtimev1.GetTreeResponse], error) {
	app, err := s.application(ctx, request.Msg.GetRef())
	if err != nil {
		return nil, err
	}
	tree, err := s.tree(ctx, app)
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(&runtimev1.GetTreeResponse{Nodes: nodesOf(tree)}), nil
}

// nodesOf converts a tree to a flat list of messages, without the Application
// itself. An object with several owners is one node with several parents.
func nodesOf(tree *inspect.Tree) []*runtimev1.Node {
	var nodes []*runtimev1.Node
	known := map[types.UID]*runtimev1.Node{}
	tree.Root.Walk(func(node, parent *inspect.Node) {
		// The root is the Application, which the client has.
		if parent == nil {
			return
		}
		message := known[node.UID]
		if message == nil {
			message = nodeOf(node)
			nodes = append(nodes, message)
			if node.UID != "" {
				known[node.UID] = message
			}
		}
		if parent != tree.Root && !slices.Contains(message.Parents, string(parent.UID)) {
			message.Parents = append(message.Parents, string(parent.UID))
		}
	})
	return nodes
}

// tree reads a tree from the cluster of the Application.
func (s *Service) tree(ctx context.Context, app *inspect.Application) (*inspect.Tree, error) {
	at, err := s.target(app)
	if err != nil {
		return nil, err
	}
	return s.readTree(ctx, app, s.strictFor(at))
}

// treeSource reads trees. A TreeReader of it caches what has not changed.
type treeSource interface {
	Tree(ctx context.Context, app *inspect.Application, skipped func(kind, namespace string)) (*inspect.Tree, error)
}

// readTree reads a tree with a given reader, when a slot is free.
func (s *Service) readTree(ctx context.Context, app *inspect.Application, with treeSource) (*inspect.Tree, error) {
	leave, err := acquire(ctx, s.reading)
	if err != nil {
		return nil, err
	}
	defer leave()
	tree, err := with.Tree(ctx, app, func(kind, namespace string) {
		s.log.Debug("cannot list owned objects", "kind", kind, "namespace", namespace)
	})
	return tree, s.toConnectError(err, app.ID())
}

// nodeOf converts one object of a tree to its message.
func nodeOf(node *inspect.Node) *runtimev1.Node {
	return &runtimev1.Node{
		Ref: objectRef(node.Key(), node.Version, node.UID), Sync: node.Sync, Health: node.Health, HealthMessage: node.Message, Info: node.Info,
		Hook: node.Hook, RequiresPruning: node.RequiresPruning, ResourceVersion: node.ResourceVersion, CreatedAt: wire.Timestamp(node.Created),
	}
}

// object reads an object of the Application; nil if it does not exist. An
// object of something else is an error like one that does not exist.
func (s *Service) object(ctx context.Context, app *inspect.Application, ref *runtimev1.ObjectRef) (*unstructured.Unstructured, error) {
	at, err := s.target(app)
	if err != nil {
		return nil, err
	}
	if ref.GetKind() == "" || ref.GetName() == "" {
		return nil, connect.NewError(connect.CodeInvalidArgument, errors.New("the request names no object: give its kind and name"))
	}
	leave, err := acquire(ctx, s.reading)
	if err != nil {
		return nil, err
	}
	defer leave()
	object, err := s.strictFor(at).Belongs(ctx, app, keyOf(ref), types.UID(ref.GetUid()))
	return object, s.toConnectError(err, app.ID())
}

// GetResource returns one object of an Application: the live one, and the one
// that Git declares. Where Git cannot be read the live object is returned
// alone, with the reason.
func (s *Service) GetResource(ctx context.Context, request *connect.Request[runtimev1.GetResourceRequest]) (*connect.Response[runtimev1.GetResourceResponse], error) {
	app, err := s.application(ctx, request.Msg.GetRef())
	if err != nil {
		return nil, err
	}
	live, err := s.object(ctx, app, request.Msg.GetObject())
	if err != nil {
		return nil, err
	}
	key := keyOf(request.Msg.GetObject())
	// Git may be unreachable. The live object is useful alone.
	desired, problem := s.desired(ctx, app, key)
	if problem != nil && live == nil {
		return nil, problem
	}
	if live == nil && desired == nil {
		return nil, connect.NewError(connect.CodeNotFound, fmt.Errorf("%s has no %s", app.ID(), key))
	}
	// Both are masked together, so that differing values of a Secret stay
	// visible.
	live, desired = inspect.MaskedPair(live, desired)
	response := &runtimev1.GetResourceResponse{}
	if response.Live, err = manifestOf(live); err == nil {
		response.Desired, err = manifestOf(desired)
	}
	if problem != nil {
		response.DesiredProblem = messageOf(problem)
	}
	return connect.NewResponse(response), s.toConnectError(err, app.ID())
}

// messageOf returns the text of an error without its code.
func messageOf(err error) string {
	if connectErr, ok := errors.AsType[*connect.Error](err); ok {
		return connectErr.Message()
	}
	return err.Error()
}
