package controller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/config"
	"slipway.dev/slipway/internal/edge"
	"slipway.dev/slipway/internal/edge/lastgood"
	"slipway.dev/slipway/internal/edge/overload"
	"slipway.dev/slipway/internal/edge/tlsstore"
	"slipway.dev/slipway/internal/ingress"
	"slipway.dev/slipway/internal/ingress/acme"
	"slipway.dev/slipway/internal/ingress/resolve"
	"slipway.dev/slipway/internal/ingress/status"
	"slipway.dev/slipway/internal/ingress/traefik/rule"
	"slipway.dev/slipway/internal/ingress/watch"
	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/observe"
	"slipway.dev/slipway/internal/route"
)

const (
	// failureTimeout is how long a start waits for an API server that fails
	// before it serves the last good table.
	failureTimeout = 3 * time.Second
	// silenceTimeout is the same for an API server that neither fails nor
	// responds to everything: one that hangs accepts connections and sends
	// nothing.
	silenceTimeout = 15 * time.Second
	// checkInterval is how often a start checks for failures.
	checkInterval = 250 * time.Millisecond
	// apiRequestsPerSecond and apiRequestBurst limit the client. Secrets are
	// read one by one, and thousands of them at a start, during which traffic
	// waits. The API server protects itself (priority and fairness); this limit
	// only stops a runaway loop.
	apiRequestsPerSecond = 2000
	apiRequestBurst      = 4000
	// readingGCPercent is the GC percentage while the cluster is read: most of
	// the objects are discarded, and a low value keeps the heap from growing
	// with garbage that fragments it. servingGCPercent applies afterwards: the
	// live heap is large, and requests allocate little.
	// With Gateway API the heap is larger, and the statuses of all routes are
	// written one by one after the start: their garbage is collected early, too.
	// When they are written, servingGCPercent applies: a collection that falls into
	// a change delays it by milliseconds, so they must not be frequent.
	readingGCPercent = 25
	servingGCPercent = 50
	gatewayGCPercent = 25
)

// ingressProvider derives routes from the Ingresses of a cluster and applies
// them to the proxy. It owns the connection to the API server, which run
// closes.
type ingressProvider struct {
	options *config.Edge
	cluster *kube.Cluster
	watcher *watch.Watcher
	writer  *status.Writer
	fetcher *acme.Manager // nil where no certificates are fetched
	// gateways writes the status of objects of Gateway API, nil where none are served.
	gateways *status.GatewayWriter
	control  *ingress.Controller
	server   *edge.Server
	log      *slog.Logger

	// live is closed once, by goLive, when the first table of the cluster is
	// applied.
	live chan struct{}
	// collects is set if the provider tunes the garbage collector: a GOGC in
	// the environment takes precedence. run sets it before it starts
	// goroutines.
	collects bool
	// scope are the Gateways that this edge listens for, and deployments are those of
	// each Gateway; nil if Gateways share the edge.
	scope       gatewayScope
	deployments *status.GatewayDeployments
	// lastGood is the table served until the cluster has been read; nil if
	// there is none. mu guards it.
	lastGood *lastGoodTable
	mu       sync.Mutex // guards lastGood
	// changed is called after each change, with mu held, and refused with all
	// current refusals. Both are set before run.
	changed func()
	refused func([]refusal.Refusal)
}

// newIngressProvider creates the client of the API server and wires watcher,
// status writer, certificate manager and controller. It sends no request yet.
func newIngressProvider(options *config.Edge, server *edge.Server, parts Parts) (*ingressProvider, error) {
	k := options.Providers.KubernetesIngress
	if _, err := nginxDefaults(options); err != nil {
		return nil, err
	}
	cluster, err := kube.ConnectAs(
		kube.ConnectOptions{Endpoint: k.Endpoint, Token: k.Token, CAFile: k.CertAuthFilePath},
		kube.Version(parts.version), kube.Rate(apiRequestsPerSecond, apiRequestBurst),
	)
	if err != nil {
		return nil, fmt.Errorf("providers.kubernetesIngress: %w", err)
	}
	p := &ingressProvider{
		options: options, cluster: cluster, server: server, log: parts.log, scope: newGatewayScope(options.Providers.KubernetesGateway),
		live: make(chan struct{}), changed: func() {}, refused: publishRefusals(parts.admin),
	}
	reading := watch.Options{
		Namespaces: k.Namespaces, Selector: k.LabelSelector,
		NoClasses: k.DisableIngressClassLookup || k.DisableClusterScopeResources,
		NoNodes:   !readsNodes(k),
		Home:      homeOf(options, cluster.Namespace),
		Gateways:  options.Providers.KubernetesGateway != nil,
		Log:       parts.log,
	}
	if crd := options.Providers.KubernetesCRD; crd != nil {
		reading.Traefik, reading.TraefikSelector = true, crd.LabelSelector
	}
	p.watcher, err = watch.New(cluster, reading)
	// The fetcher exists before the writer and the controller, whose options
	// refer to it.
	if err == nil {
		p.fetcher, err = p.newFetcher(parts)
	}
	if err != nil {
		cluster.Close()
		return nil, err
	}
	if g := options.Providers.KubernetesGateway; g != nil {
		p.gateways = status.NewGatewayWriter(cluster, g.Services || g.ServiceType != "", parts.log)
		p.gateways.Quiet = p.statusesWritten
		p.gateways.Replicas = status.NewReplicas(cluster, leaseName(k.IngressClass), parts.log)
		if g.Deployment != "" {
			p.deployments = status.NewGatewayDeployments(cluster, g.Deployment, leaseName(k.IngressClass), parts.log)
			p.gateways.Deployments = p.deployments
		}
	}
	p.writer = status.New(cluster, status.Options{
		IP: k.IngressEndpoint.IP, Hostname: k.IngressEndpoint.Hostname, PublishedService: k.IngressEndpoint.PublishedService,
		NoNodes: !readsNodes(k), Namespaces: k.Namespaces, Selective: k.LabelSelector != "",
		LeaseNamespace: cluster.Namespace, LeaseName: leaseName(k.IngressClass), Shared: sharedStatus(options), WhileLeading: p.lead,
		Log: parts.log, Metrics: status.NewMetrics(parts.metrics.For("ingress")),
	})
	p.control = ingress.New(p.watcher, p.writer, p.controllerOptions(parts.metrics))
	return p, nil
}

// readsNodes reports whether nodes are watched. They are many, and their status
// changes often, so they are left out where they cannot be read.
func readsNodes(k *config.KubernetesIngress) bool { return !k.DisableClusterScopeResources }

// leaseName is the Lease that replicas with the same IngressClass compete for.
// Edges of different classes write the status of different Ingresses, so each
// class has a leader.
func leaseName(class string) string {
	if class == "" {
		return "slipway-edge"
	}
	return "slipway-edge-" + class
}

// controllerOptions wires the controller to the proxy: changes go to apply, and
// the zone of this node goes to the proxy for zone-aware load balancing.
func (p *ingressProvider) controllerOptions(metrics *observe.Metrics) ingress.Options {
	k := p.options.Providers.KubernetesIngress
	given := ingress.Options{
		Gateways: p.gateways,
		Resolve:  resolveOptions(p.options, p.cluster.Namespace),
		Node:     k.NodeName,
		Zone:     p.server.SetZone,
		// The longer of the two throttles applies: that of the provider and
		// that of all providers.
		Throttle:         max(time.Duration(k.ThrottleDuration), time.Duration(p.options.Providers.ProvidersThrottleDuration)),
		PublishedService: k.IngressEndpoint.PublishedService,
		Apply:            p.apply,
		Live:             p.goLive,
		Refused:          p.refused,
		Metrics:          ingress.NewMetrics(metrics.For("ingress"), p.watcher.Behind),
		Log:              p.log,
	}
	given.Resolve.Gateways.Served = servedAddresses(p.options)
	// A nil *acme.Manager in the interface would not compare equal to nil.
	if p.fetcher != nil {
		given.Certificates = p.fetcher
	}
	return given
}

// resolveOptions returns the options that decide how objects are interpreted.
// home is the namespace of the edge itself, which has ACME accounts and
// challenges. Offline checks use the same options, so that lint and a running
// edge agree.
func resolveOptions(options *config.Edge, home string) resolve.Options {
	k := options.Providers.KubernetesIngress
	resolvers := map[string]resolve.CertificateResolver{}
	for name, given := range options.CertificatesResolvers {
		dns := given.ACME.DNSChallenge
		resolvers[name] = resolve.CertificateResolver{Wildcards: dns.Provider != "", Namespaces: dns.Namespaces}
	}
	encrypted := map[string]bool{}
	var datagrams []string
	for name, point := range options.EntryPoints {
		if _, udp := point.Listen(); udp {
			datagrams = append(datagrams, name)
			continue
		}
		encrypted[name] = takesEncrypted(options, name)
	}
	slices.Sort(datagrams)
	var gateways resolve.GatewayOptions
	if g := options.Providers.KubernetesGateway; g != nil {
		gateways = gatewayOptions(g, k.IngressEndpoint.PublishedService)
		if g.Deployment != "" {
			gateways.DeploymentNamespace = home
		}
	}
	var traefik *resolve.TraefikOptions
	if crd := options.Providers.KubernetesCRD; crd != nil {
		traefik = &resolve.TraefikOptions{
			CrossNamespace: crd.AllowCrossNamespace, IngressClass: crd.IngressClass, Syntax: rule.Syntax(crd.DefaultRuleSyntax),
			TCPEntryPoints: crd.TCPEntryPoints, UDPEntryPoints: datagrams, StoreNamespace: cmp.Or(crd.TLSStoreNamespace, home),
		}
	}
	return resolve.Options{
		Gateways: gateways, NGINX: nginxOptions(options), Traefik: traefik,
		EntryPoints: encrypted, Resolvers: resolvers, Home: homeOf(options, home),
		IngressClass: k.IngressClass, NoClassLookup: k.DisableIngressClassLookup, NoClusterScope: k.DisableClusterScopeResources,
		AllowEmptyServices: k.AllowEmptyServices, CrossNamespace: k.AllowCrossNamespace, ExternalNames: k.AllowExternalNameServices,
		HostSharing:     resolve.HostSharing(k.HostSharing),
		NativeByDefault: k.NativeLBByDefault, StrictPrefix: k.StrictPrefixMatching, DisablePassHost: k.DisablePassHostHeaders,
	}
}

// gatewayOptions returns those of Gateway API. They were validated with the options.
func gatewayOptions(g *config.KubernetesGateway, published string) resolve.GatewayOptions {
	made := resolve.GatewayOptions{AddressesPerNamespace: g.AddressesPerNamespace, TargetsPerNamespace: g.TargetPortsPerNamespace,
		ServiceType: g.ServiceType, EdgeService: cmp.Or(g.EdgeService, published), Services: g.Services || g.ServiceType != ""}
	made.Addresses, _ = config.ParseNetworks(g.Addresses)
	made.FirstTarget, made.LastTarget = g.TargetRange()
	return made
}

// takesEncrypted reports whether requests can come encrypted to an entry point: it
// terminates TLS, or trusts a proxy that does.
func takesEncrypted(options *config.Edge, name string) bool {
	point := options.EntryPoints[name]
	return point.HTTP.TLS || point.ForwardedHeaders.Insecure || len(point.ForwardedHeaders.TrustedIPs) > 0
}

// run watches the cluster until ctx is done, and closes the connection. A part
// that fails is logged and the others continue: the live routes must not depend
// on it.
func (p *ingressProvider) run(ctx context.Context) {
	defer p.cluster.Close()
	if p.collects = os.Getenv("GOGC") == ""; p.collects {
		debug.SetGCPercent(readingGCPercent)
	}
	var parts sync.WaitGroup
	running := []func(context.Context) error{p.watcher.Run, p.control.Run}
	if !p.scope.dedicated() { // the Pods of a Gateway write no status, and are no candidates of the election
		running = append(running, p.writer.Run)
	}
	if p.gateways != nil {
		running = append(running, p.gateways.Replicas.Run)
	}
	if n := p.options.Providers.KubernetesIngressNGINX; n != nil && n.ConfigMapFile != "" {
		seen, _ := readConfigMapFile(n.ConfigMapFile)
		follower := &configMapFollower{options: n, period: configMapPeriod, seen: seen, apply: p.control.SetNGINXDefaults, log: p.log}
		parts.Go(func() { follower.run(ctx) })
	}
	for _, part := range running {
		parts.Go(func() {
			if err := part(ctx); err != nil && !errors.Is(err, context.Canceled) {
				p.log.Error("the Kubernetes Ingress provider has a part that ended; routes stay as they are", "error", err)
			}
		})
	}
	parts.Wait()
}

// await returns when the first routes are live: those of the cluster, or the
// last good table while the API server fails. Meanwhile condition has the
// reason, which the readiness probe shows. The last good table is tried once;
// without one, await waits for the cluster until ctx ends.
func (p *ingressProvider) await(ctx context.Context, condition *observe.Condition) error {
	tick := time.NewTicker(checkInterval)
	defer tick.Stop()
	began := time.Now()
	tried := p.options.LastGood.Dir == ""
	for {
		select {
		case <-p.live:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		failures, waited := p.watcher.Failures(), time.Since(began)
		switch {
		case len(failures) > 0:
			condition.Unmet("the cluster cannot be read: " + failureText(failures))
		case waited < silenceTimeout:
			condition.Unmet(routesMissing)
			continue
		default:
			condition.Unmet("the cluster has not been read: the API server returns no error, but does not respond to all requests")
		}
		if tried || waited < failureTimeout {
			continue
		}
		tried = true
		err := p.serveLastGood()
		if err == nil {
			return nil
		}
		p.log.Warn("the cluster cannot be read, and neither can the routes served last", "error", err)
	}
}

// failureText formats failures by kind, sorted, so that the text of the
// condition is stable.
func failureText(failures map[string]error) string {
	var texts []string
	for _, kind := range slices.Sorted(maps.Keys(failures)) {
		texts = append(texts, kind+": "+failures[kind].Error())
	}
	return strings.Join(texts, "; ")
}

// apply applies a change of the cluster to the proxy and returns its feedback.
// The lock orders it with serveLastGood and goLive, which apply tables too.
func (p *ingressProvider) apply(change *route.Change) ingress.Feedback {
	p.mu.Lock()
	defer p.mu.Unlock()
	// From now on the cluster decides about the objects in the change.
	if p.lastGood != nil {
		p.lastGood.note(change)
	}
	feedback := p.server.Update(p.scope.narrow(change))
	p.changed()
	return ingressFeedback(feedback)
}

// ingressFeedback converts the proxy's feedback, so that refusals reach the
// status of the Ingresses that caused them.
func ingressFeedback(seen edge.Feedback) ingress.Feedback {
	feedback := ingress.Feedback{Problems: seen.Problems, CertificatesChanged: seen.TLSChanged}
	for _, problem := range seen.TLS {
		if problem.Kind == tlsstore.KindCertificate { // options are judged before they come here
			feedback.Certificates = append(feedback.Certificates, problem.Refusal)
		}
	}
	return feedback
}

// goLive is called once, when all of the cluster is applied. Only now it
// removes routes that the last good table had and the cluster does not: with a
// partly read cluster it would remove routes that are merely late.
func (p *ingressProvider) goLive() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.lastGood != nil {
		p.server.Update(p.lastGood.rest())
		p.lastGood = nil
		p.log.Info("the cluster has been read; its routes replace those that were served last")
	}
	close(p.live)
	if p.collects && p.gateways == nil {
		debug.SetGCPercent(servingGCPercent)
	} else if p.collects {
		debug.SetGCPercent(gatewayGCPercent)
	}
	// Most of the heap of the start is garbage now. It runs beside, because
	// traffic can start already.
	go overload.ReleaseStartupMemory()
}

// statusesWritten is called when the statuses of all routes are written after the start.
func (p *ingressProvider) statusesWritten() {
	if p.collects {
		debug.SetGCPercent(servingGCPercent)
	}
	overload.ReleaseStartupMemory()
}

// serveLastGood applies the cluster's part of the last good table, unless the
// cluster was read meanwhile.
func (p *ingressProvider) serveLastGood() error {
	// The file is read without the lock, so that apply does not wait for the
	// disk.
	table, err := lastgood.Load(p.options.LastGood.Dir)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.live:
		return nil // the cluster was quicker
	default:
	}
	p.lastGood = newLastGoodTable(table)
	p.server.Update(p.lastGood.change())
	p.log.Warn("the cluster cannot be read; the routes served last are live", "rules", len(p.lastGood.table.Rules))
	return nil
}
