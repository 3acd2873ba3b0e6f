package release

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"helm.sh/helm/v4/pkg/action"
	helmkube "helm.sh/helm/v4/pkg/kube"
	"helm.sh/helm/v4/pkg/release/common"
	helmrelease "helm.sh/helm/v4/pkg/release/v1"
	"helm.sh/helm/v4/pkg/storage/driver"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"slipway.dev/slipway/api/gatewayapi"
	"slipway.dev/slipway/internal/kube"
)

const (
	// requestTime bounds one request to the API server.
	requestTime = 15 * time.Second
	// lookEvery is the poll interval of waits.
	lookEvery = 2 * time.Second
	// undoTime bounds a rollback, which starts when the timeout of the
	// operation is over.
	undoTime = 3 * time.Minute
	// helmFields is the field manager of helm.
	helmFields = "helm"
	// keptRevisions is the number of revisions that are kept, Helm's own
	// default.
	keptRevisions = 10
)

// Place identifies a release.
type Place struct {
	Release, Namespace string
}

// String formats the place as namespace/release.
func (p Place) String() string { return p.Namespace + "/" + p.Release }

// Client works on one release. It performs one operation at a time.
type Client struct {
	cluster *kube.Cluster
	place   Place
	config  *action.Configuration
	// mapper caches discovery. It is reset after definitions were written.
	mapper meta.ResettableRESTMapper
	// report reports progress. Open replaces nil.
	report func(line string)
}

// nameFieldManager sets Helm's global field manager. Otherwise it is the name of
// this program: helm upgrade and helm rollback would find the fields owned by
// another manager, and refuse.
var nameFieldManager = sync.OnceFunc(func() { helmkube.ManagedFieldsManager = helmFields })

// Open returns a client and sends nothing. tell receives progress in lines; it
// may be nil.
func Open(cluster *kube.Cluster, place Place, report func(line string)) (*Client, error) {
	if report == nil {
		report = func(string) {}
	}
	config := rest.CopyConfig(cluster.Config)
	// Warnings of the API server would appear between the lines of progress.
	config.WarningHandler = rest.NoWarnings{}
	// Discovery is cached in memory and shared by Helm and this package.
	cached := memory.NewMemCacheClient(cluster.Client.Discovery())
	mapper := kindMapper{restmapper.NewDeferredDiscoveryRESTMapper(cached)}
	nameFieldManager()
	// Helm's log is discarded: progress and errors come from this package.
	helm := action.NewConfiguration(action.ConfigurationSetLogger(slog.DiscardHandler))
	if err := helm.Init(connection{config, cached, mapper, place.Namespace}, place.Namespace, "secret"); err != nil {
		return nil, fmt.Errorf("prepare Helm: %w", err)
	}
	helm.Releases.MaxHistory = keptRevisions
	return &Client{cluster: cluster, place: place, config: helm, mapper: mapper, report: report}, nil
}

// kindMapper maps kinds to resources as the API server does, and GatewayClasses also
// before it knows them: a plan changes nothing, so that their definition, which comes
// with the release, may be missing.
type kindMapper struct{ meta.ResettableRESTMapper }

// RESTMapping returns the resource of a kind.
func (m kindMapper) RESTMapping(kind schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	mapping, err := m.ResettableRESTMapper.RESTMapping(kind, versions...)
	if !meta.IsNoMatchError(err) || kind != (schema.GroupKind{Group: gatewayapi.Group, Kind: "GatewayClass"}) {
		return mapping, err
	}
	version := schema.GroupVersion{Group: gatewayapi.Group, Version: "v1"}
	return &meta.RESTMapping{
		Resource: version.WithResource("gatewayclasses"), GroupVersionKind: version.WithKind(kind.Kind), Scope: meta.RESTScopeRoot,
	}, nil
}

// connection implements Helm's RESTClientGetter over the configuration of the
// cluster, so that Helm reads no kubeconfig of its own.
type connection struct {
	config    *rest.Config
	cached    discovery.CachedDiscoveryInterface
	mapper    meta.RESTMapper
	namespace string
}

// ToRESTConfig returns a copy of the configuration.
func (c connection) ToRESTConfig() (*rest.Config, error) { return rest.CopyConfig(c.config), nil }

// ToDiscoveryClient returns the discovery of the cluster.
func (c connection) ToDiscoveryClient() (discovery.CachedDiscoveryInterface, error) {
	return c.cached, nil
}

// ToRESTMapper returns the mapper of kinds to resources.
func (c connection) ToRESTMapper() (meta.RESTMapper, error) { return c.mapper, nil }

// ToRawKubeConfigLoader returns a loader; Helm reads only the namespace of it.
func (c connection) ToRawKubeConfigLoader() clientcmd.ClientConfig {
	overrides := &clientcmd.ConfigOverrides{Context: clientcmdapi.Context{Namespace: c.namespace}}
	return clientcmd.NewDefaultClientConfig(*clientcmdapi.NewConfig(), overrides)
}

// State is an installed release.
type State struct {
	Revision int
	// Status is a word of Helm, such as deployed or failed.
	Status string
	// Chart is its name, and Version its version.
	Chart, Version string
	// Values are those that were given, without the defaults of the chart.
	Values map[string]any
	// Pending is set while another operation runs, or after one was killed.
	Pending bool
	// Lived is set if any revision was ever healthy.
	Lived bool
}

// Current returns the installed release, or nil.
func (c *Client) Current(ctx context.Context) (*State, error) {
	all, err := c.history(ctx)
	if err != nil || len(all) == 0 {
		return nil, err
	}
	last := newest(all)
	state := &State{
		Revision: last.Version, Status: last.Info.Status.String(), Values: last.Config, Pending: last.Info.Status.IsPending(),
	}
	if last.Chart != nil && last.Chart.Metadata != nil {
		state.Chart, state.Version = last.Chart.Metadata.Name, last.Chart.Metadata.Version
	}
	// A superseded revision was deployed before the next one replaced it.
	for _, one := range all {
		state.Lived = state.Lived || one.Info.Status == common.StatusDeployed || one.Info.Status == common.StatusSuperseded
	}
	return state, nil
}

// history returns every revision, in no particular order. A release that does
// not exist has none.
func (c *Client) history(ctx context.Context) ([]*helmrelease.Release, error) {
	// Helm's storage takes no context, so its end is checked first.
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	found, err := c.config.Releases.History(c.place.Release)
	if errors.Is(err, driver.ErrReleaseNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the release %s: %w", c.place, err)
	}
	var all []*helmrelease.Release
	// Helm returns interfaces. A record without info has no status to go by.
	for _, one := range found {
		if typed, ok := one.(*helmrelease.Release); ok && typed.Info != nil {
			all = append(all, typed)
		}
	}
	return all, nil
}

// newest returns the revision with the highest number.
func newest(all []*helmrelease.Release) *helmrelease.Release {
	last := all[0]
	for _, one := range all {
		if one.Version > last.Version {
			last = one
		}
	}
	return last
}

// deployed returns the newest revision that is or was healthy, or nil. A
// deployed one wins over those that were superseded.
func deployed(all []*helmrelease.Release) *helmrelease.Release {
	var found *helmrelease.Release
	for _, one := range all {
		good := one.Info.Status == common.StatusDeployed || one.Info.Status == common.StatusSuperseded
		if good && (found == nil || one.Info.Status == common.StatusDeployed && found.Info.Status != common.StatusDeployed ||
			one.Info.Status == found.Info.Status && one.Version > found.Version) {
			found = one
		}
	}
	return found
}
