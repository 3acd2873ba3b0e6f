package appproxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"slipway.dev/slipway/internal/gitops/inspect"
	"slipway.dev/slipway/internal/gitops/tracking"
	"slipway.dev/slipway/internal/wire/runtimev1"
)

// listBytes bounds the manifests of one list.
const listBytes = 32 << 20

// ListApplications lists those of the agent's namespaces.
func (s *Service) ListApplications(ctx context.Context, request *connect.Request[runtimev1.ListApplicationsRequest]) (*connect.Response[runtimev1.ListApplicationsResponse], error) {
	if _, err := labels.Parse(request.Msg.GetSelector()); err != nil {
		return nil, connect.NewError(connect.CodeInvalidArgument, fmt.Errorf("the selector is none of Kubernetes: %w", err))
	}
	leave, err := enter(ctx, s.reading)
	if err != nil {
		return nil, err
	}
	defer leave()
	answer := &runtimev1.ListApplicationsResponse{}
	size := 0
	for _, namespace := range s.namespaces() {
		if namespace == everyNamespace {
			namespace = metav1.NamespaceAll
		}
		apps, err := s.inspector.List(ctx, namespace, request.Msg.GetSelector())
		if err != nil {
			return nil, s.fault(err, tracking.App{Namespace: namespace})
		}
		for _, app := range apps {
			if project := request.Msg.GetProject(); project != "" && app.Spec.ProjectName() != project {
				continue
			}
			detail, err := detailOf(app)
			if err != nil {
				return nil, s.fault(err, app.ID())
			}
			if size += len(detail.GetManifest()); size > listBytes {
				return nil, connect.NewError(connect.CodeResourceExhausted, errors.New("there are too many Applications for one answer: choose some with selector or project"))
			}
			answer.Applications = append(answer.Applications, detail)
		}
	}
	return connect.NewResponse(answer), nil
}

// detailOf is an Application as the API tells it.
func detailOf(app *inspect.Application) (*runtimev1.ApplicationDetail, error) {
	manifest, err := manifestOf(inspect.ShownApplication(app))
	return &runtimev1.ApplicationDetail{Ref: refOf(app.ID()), Manifest: manifest}, err
}

func refOf(app tracking.App) *runtimev1.ApplicationRef {
	return &runtimev1.ApplicationRef{Namespace: app.Namespace, Name: app.Name}
}

// manifestOf is an object that may be shown, as JSON; nothing for nil.
func manifestOf(object *unstructured.Unstructured) ([]byte, error) {
	if object == nil {
		return nil, nil
	}
	return json.Marshal(object.Object)
}

// keyOf is the object that a request names.
func keyOf(ref *runtimev1.ObjectRef) tracking.Key {
	return tracking.Key{Group: ref.GetGroup(), Kind: ref.GetKind(), Namespace: ref.GetNamespace(), Name: ref.GetName()}
}

func objectRef(key tracking.Key, version string, uid types.UID) *runtimev1.ObjectRef {
	return &runtimev1.ObjectRef{Group: key.Group, Version: version, Kind: key.Kind, Namespace: key.Namespace, Name: key.Name, Uid: string(uid)}
}

// GetApplication reads one.
func (s *Service) GetApplication(ctx context.Context, request *connect.Request[runtimev1.GetApplicationRequest]) (*connect.Response[runtimev1.GetApplicationResponse], error) {
	app, err := s.application(ctx, request.Msg.GetRef())
	if err != nil {
		return nil, err
	}
	detail, err := detailOf(app)
	if err != nil {
		return nil, s.fault(err, app.ID())
	}
	return connect.NewResponse(&runtimev1.GetApplicationResponse{Application: detail}), nil
}

// GetTree reads the objects of an Application, and what they own.
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

// nodesOf is a tree as the API tells it: without the Application itself.
func nodesOf(tree *inspect.Tree) []*runtimev1.Node {
	var nodes []*runtimev1.Node
	known := map[types.UID]*runtimev1.Node{}
	tree.Root.Walk(func(node, parent *inspect.Node) {
		if parent == nil {
			return
		}
		told := known[node.UID]
		if told == nil {
			told = nodeOf(node)
			nodes = append(nodes, told)
			if node.UID != "" {
				known[node.UID] = told
			}
		}
		if parent != tree.Root && !slices.Contains(told.Parents, string(parent.UID)) {
			told.Parents = append(told.Parents, string(parent.UID))
		}
	})
	return nodes
}

// tree reads a tree when it is its turn.
func (s *Service) tree(ctx context.Context, app *inspect.Application) (*inspect.Tree, error) {
	at, err := s.target(app)
	if err != nil {
		return nil, err
	}
	return s.readTree(ctx, app, s.within(at))
}

// treeSource is what trees are read with.
type treeSource interface {
	Tree(ctx context.Context, app *inspect.Application, skipped func(kind, namespace string)) (*inspect.Tree, error)
}

// readTree is tree, with what it is read with.
func (s *Service) readTree(ctx context.Context, app *inspect.Application, with treeSource) (*inspect.Tree, error) {
	leave, err := enter(ctx, s.reading)
	if err != nil {
		return nil, err
	}
	defer leave()
	tree, err := with.Tree(ctx, app, func(kind, namespace string) {
		s.log.Debug("the agent may not list what Applications own", "kind", kind, "namespace", namespace)
	})
	return tree, s.fault(err, app.ID())
}

func nodeOf(node *inspect.Node) *runtimev1.Node {
	told := &runtimev1.Node{
		Ref: objectRef(node.Key(), node.Version, node.UID), Sync: node.Sync, Health: node.Health, HealthMessage: node.Message,
		Info: node.Info, Hook: node.Hook, RequiresPruning: node.RequiresPruning, ResourceVersion: node.ResourceVersion,
	}
	if !node.Created.IsZero() {
		told.CreatedAt = timestamppb.New(node.Created)
	}
	return told
}

// object reads an object that belongs to the Application; nil if there is none.
func (s *Service) object(ctx context.Context, app *inspect.Application, ref *runtimev1.ObjectRef) (*unstructured.Unstructured, error) {
	at, err := s.target(app)
	if err != nil {
		return nil, err
	}
	if ref.GetKind() == "" || ref.GetName() == "" {
		return nil, connect.NewError(connect.CodeInvalidArgument, errors.New("the request names no object: give its kind and name"))
	}
	leave, err := enter(ctx, s.reading)
	if err != nil {
		return nil, err
	}
	defer leave()
	object, err := s.within(at).Belongs(ctx, app, keyOf(ref), types.UID(ref.GetUid()))
	return object, s.fault(err, app.ID())
}

// GetResource reads one object of an Application: as it is, and as Git says.
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
	desired, problem := s.desired(ctx, app, key)
	if problem != nil && live == nil {
		return nil, problem
	}
	if live == nil && desired == nil {
		return nil, connect.NewError(connect.CodeNotFound, fmt.Errorf("%s has no %s", app.ID(), key))
	}
	live, desired = inspect.MaskedPair(live, desired)
	answer := &runtimev1.GetResourceResponse{}
	if answer.Live, err = manifestOf(live); err == nil {
		answer.Desired, err = manifestOf(desired)
	}
	if problem != nil {
		answer.DesiredProblem = messageOf(problem)
	}
	return connect.NewResponse(answer), s.fault(err, app.ID())
}

// messageOf is the text of an error without its code.
func messageOf(err error) string {
	var told *connect.Error
	if errors.As(err, &told) {
		return told.Message()
	}
	return err.Error()
}
