package clusters

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"connectrpc.com/connect"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/agent/sharedrepo"
	"slipway.dev/slipway/internal/gitops/project"
	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/secret"
	"slipway.dev/slipway/internal/wire"
	"slipway.dev/slipway/internal/wire/runtimev1"
	"slipway.dev/slipway/internal/wire/runtimev1/runtimev1connect"
)

// ServiceOptions configures a Service.
type ServiceOptions struct {
	Registry *Registry
	// Home is the runtime's own cluster, and Namespace has the Secrets.
	Home      *kube.Cluster
	Namespace string
	// Fleet returns the Fleet of the current term; nil while another replica
	// leads.
	Fleet func() *Fleet
	// Applications lists the Applications of the runtime.
	Applications func(ctx context.Context) ([]*v1alpha1.Application, error)
	Version      string
	Log          *slog.Logger
}

// Service adds, lists and removes clusters. It implements
// runtimev1connect.ClusterServiceHandler.
type Service struct {
	ServiceOptions
}

var _ runtimev1connect.ClusterServiceHandler = (*Service)(nil)

// NewService returns a Service.
func NewService(options ServiceOptions) *Service { return &Service{options} }

// ListClusters returns the own cluster and the others.
func (s *Service) ListClusters(ctx context.Context, _ *connect.Request[runtimev1.ListClustersRequest]) (*connect.Response[runtimev1.ListClustersResponse], error) {
	return connect.NewResponse(&runtimev1.ListClustersResponse{Clusters: s.List(ctx)}), nil
}

// List returns all clusters with their state, the own one first.
func (s *Service) List(ctx context.Context) []*runtimev1.ManagedCluster {
	// The own cluster has no Secret, unless one gives it labels.
	own := &runtimev1.ManagedCluster{Name: project.LocalName, Server: project.LocalServer, InCluster: true}
	s.Registry.mu.Lock()
	if local := s.Registry.local; local != nil {
		own.Labels = local.Labels
	}
	s.Registry.mu.Unlock()
	setState(own, s.probe(ctx, s.Home))
	return append([]*runtimev1.ManagedCluster{own}, s.Others(ctx)...)
}

// Others returns the clusters beside the own one with their state, by name.
func (s *Service) Others(ctx context.Context) []*runtimev1.ManagedCluster {
	entries, _ := s.Registry.read()
	slices.SortFunc(entries, func(a, b *ClusterSpec) int { return cmp.Compare(a.Name, b.Name) })
	listed := make([]*runtimev1.ManagedCluster, len(entries))
	var looking sync.WaitGroup
	for i, entry := range entries {
		listed[i] = entry.message()
		looking.Go(func() { setState(listed[i], s.state(ctx, entry)) })
	}
	looking.Wait()
	return listed
}

// state is how a cluster is: as the fleet found it, or as it is found now when
// another replica leads.
func (s *Service) state(ctx context.Context, entry *ClusterSpec) State {
	if fleet := s.Fleet(); fleet != nil {
		return fleet.State(entry.Server)
	}
	cluster, err := kube.ConnectRemote(entry.remote(entry.token), kube.Version(s.Version))
	if err != nil {
		return State{Status: StatusFailed, Message: err.Error()}
	}
	defer cluster.Close()
	return s.probe(ctx, cluster)
}

// probe checks a cluster once.
func (s *Service) probe(ctx context.Context, cluster *kube.Cluster) State {
	one := &member{cluster: cluster}
	return one.probe(ctx)
}

// AddCluster checks that a cluster is reachable and accepts the token, and
// stores it. With dry_run it only checks.
func (s *Service) AddCluster(ctx context.Context, request *connect.Request[runtimev1.AddClusterRequest]) (*connect.Response[runtimev1.AddClusterResponse], error) {
	wanted, err := newSecret(s.Namespace, request.Msg)
	if err != nil {
		return nil, connect.NewError(connect.CodeInvalidArgument, err)
	}
	entry, err := Parse(wanted)
	if err != nil {
		return nil, connect.NewError(connect.CodeInvalidArgument, err)
	}
	if err := s.checkCollision(entry, request.Msg.GetReplace()); err != nil {
		return nil, err
	}
	cluster, err := kube.ConnectRemote(entry.remote(entry.token), kube.Version(s.Version))
	if err != nil {
		return nil, connect.NewError(connect.CodeInvalidArgument, err)
	}
	defer cluster.Close()
	// The cluster is probed from here: the user's machine may reach addresses
	// that the runtime does not.
	found := s.probe(ctx, cluster)
	if found.Status != StatusConnected {
		return nil, connect.NewError(connect.CodeFailedPrecondition, fmt.Errorf(
			"the runtime cannot use the cluster %s at %s: %s; nothing was stored", entry.Name, entry.Server, found.Message))
	}
	if !request.Msg.GetDryRun() {
		if err := s.store(ctx, wanted, entry); err != nil {
			return nil, err
		}
		s.Log.Info("added cluster", "cluster", entry.Name, "server", entry.Server)
	}
	response := entry.message()
	setState(response, found)
	return connect.NewResponse(&runtimev1.AddClusterResponse{Cluster: response}), nil
}

// checkCollision refuses a name or an address that another cluster has.
func (s *Service) checkCollision(entry *ClusterSpec, replace bool) error {
	entries, _ := s.Registry.read()
	for _, other := range entries {
		same := other.Name == entry.Name && other.Server == entry.Server
		switch {
		case same && replace:
		case same:
			return connect.NewError(connect.CodeAlreadyExists, fmt.Errorf("the cluster %s is there already: replace it, or remove it first", entry.Name))
		// Applications refer to clusters by name or by address, so that both
		// must be unique.
		case other.Name == entry.Name:
			return connect.NewError(connect.CodeAlreadyExists, fmt.Errorf("a cluster at %s has the name %s: choose another name", other.Server, entry.Name))
		case other.Server == entry.Server:
			return connect.NewError(connect.CodeAlreadyExists, fmt.Errorf("%s is there already, with the name %s", other.Server, other.Name))
		}
	}
	return nil
}

// RemoveCluster removes a cluster. Objects that were deployed to it stay there.
func (s *Service) RemoveCluster(ctx context.Context, request *connect.Request[runtimev1.RemoveClusterRequest]) (*connect.Response[runtimev1.RemoveClusterResponse], error) {
	name, server := request.Msg.GetName(), strings.TrimSuffix(request.Msg.GetServer(), "/")
	if (name == "") == (server == "") {
		return nil, connect.NewError(connect.CodeInvalidArgument, errors.New("name the cluster: by its name or by its address"))
	}
	if name == project.LocalName || server == project.LocalServer {
		return nil, connect.NewError(connect.CodeFailedPrecondition, errors.New("the cluster that the runtime is in cannot be removed"))
	}
	entry := s.Registry.find(name, server)
	if entry == nil {
		return nil, connect.NewError(connect.CodeNotFound, fmt.Errorf("there is no cluster %s%s", name, server))
	}
	if !request.Msg.GetForce() {
		if err := s.checkUnused(ctx, entry); err != nil {
			return nil, err
		}
	}
	err := s.Home.Client.CoreV1().Secrets(s.Namespace).Delete(ctx, entry.SecretName, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, connect.NewError(connect.CodeUnavailable, fmt.Errorf("delete the Secret of the cluster: %w", err))
	}
	s.Log.Info("removed cluster", "cluster", entry.Name, "server", entry.Server)
	return connect.NewResponse(&runtimev1.RemoveClusterResponse{}), nil
}

// checkUnused refuses to remove a cluster that Applications deploy to: they
// would no longer be reconciled, and could not delete their objects there.
func (s *Service) checkUnused(ctx context.Context, entry *ClusterSpec) error {
	apps, err := s.Applications(ctx)
	if err != nil {
		return connect.NewError(connect.CodeUnavailable, fmt.Errorf("find out who uses the cluster: %w", err))
	}
	var users []string
	for _, app := range apps {
		// Our own Application for the cluster goes with it.
		if app.Labels[sharedrepo.EntityLabel] == sharedrepo.EntityConfig {
			continue
		}
		to := app.Spec.Destination
		// The address wins over the name, as in the reconcile loop.
		if strings.TrimSuffix(to.Server, "/") == entry.Server || to.Server == "" && to.Name == entry.Name {
			users = append(users, app.Namespace+"/"+app.Name)
		}
	}
	if len(users) == 0 {
		return nil
	}
	slices.Sort(users)
	return connect.NewError(connect.CodeFailedPrecondition, fmt.Errorf(
		"%d applications deploy to the cluster %s (%s): delete or move them first, or force it and they are left as they are",
		len(users), entry.Name, strings.Join(users[:min(len(users), 5)], ", ")))
}

// setState adds the state of a cluster to its message.
func setState(one *runtimev1.ManagedCluster, found State) {
	one.Status, one.Message, one.Version = found.Status, found.Message, found.Version
}

// message returns the cluster without credentials. The annotation of kubectl is
// left out, as it contains a copy of the Secret.
func (e *ClusterSpec) message() *runtimev1.ManagedCluster {
	annotations := maps.Clone(e.Annotations)
	delete(annotations, corev1.LastAppliedConfigAnnotation)
	return &runtimev1.ManagedCluster{
		Name: e.Name, Server: e.Server, Labels: e.Labels, Namespaces: e.Namespaces, Annotations: annotations, TokenExpiresAt: wire.Timestamp(e.expires),
	}
}

// expiryOf reads when a ServiceAccount's token expires. It only decides when to
// renew it, so that the signature need not be verified.
func expiryOf(token secret.Text) (time.Time, error) {
	claims, err := unverifiedClaims(token)
	if err != nil {
		return time.Time{}, err
	}
	if claims.Expires == 0 {
		return time.Time{}, errors.New("the token does not expire: give one that the cluster made for a limited time (slipway cluster add does)")
	}
	return time.Unix(claims.Expires, 0).UTC(), nil
}
