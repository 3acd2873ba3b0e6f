package ingress

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"

	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
	"slipway.dev/slipway/test/conformance/edgeprocess"
)

const (
	// oldManager owns the fields that ingress-nginx writes.
	oldManager = "nginx-ingress-controller"
	oldLease   = "ingress-nginx-leader"
	// oldIdentity is the name of its Pods, without the end.
	oldIdentity = "ingress-nginx-controller-"
	// oldElectionTTL is 30 s in ingress-nginx.
	oldElectionTTL = 6 * time.Second
	// oldSyncPeriod is a minute in ingress-nginx. A writer that writes more often is more
	// likely to be seen when it must not write.
	oldSyncPeriod = 500 * time.Millisecond
)

// oldController stands in for ingress-nginx: Debian's nginx with a configuration from the
// Ingresses of its class, and its leader election and writer of status. The election has
// the settings of ingress-nginx, which does not release its Lease. The status stays when
// the controller ends, as in ingress-nginx while another Pod of it runs.
type oldController struct {
	*replica
	api *kube.Cluster
	// address is published in the status.
	address string
	stop    context.CancelFunc
	running sync.WaitGroup
}

// startOldController reads the Ingresses and serves them at an address. It does not
// write status before competes is called, as with --update-status=false and
// --disable-leader-election.
func startOldController(t *testing.T, api *kube.Cluster, at netip.Addr, published string) *oldController {
	t.Helper()
	c := &oldController{api: api, address: published, stop: func() {}}
	place := seat{At: at}
	dir := t.TempDir()
	file := filepath.Join(dir, "nginx.conf")
	must.Do(t, os.WriteFile(file, []byte(c.configuration(t, place, dir)), 0o600))
	process := programs.Run(t, "nginx", exec.Command("/usr/sbin/nginx", "-c", file, "-p", dir, "-e", filepath.Join(dir, "error.log")))
	// A master that is killed leaves its worker behind.
	t.Cleanup(func() {
		if process.Alive() == nil {
			_ = process.Signal(syscall.SIGTERM)
			process.Wait(t)
		}
	})
	c.replica = &replica{Seat: place, Process: process}
	c.AwaitReady(t)
	return c
}

// competes lets the controller take part in the election by the Lease in a namespace, and
// write status while it leads.
func (c *oldController) competes(t *testing.T, namespace string) {
	t.Helper()
	ctx, stop := context.WithCancel(klog.NewContext(context.Background(), logr.Discard()))
	c.stop = stop
	t.Cleanup(func() {
		stop()
		c.running.Wait()
	})
	c.running.Go(func() { c.compete(ctx, namespace, oldIdentity+c.At.String()) })
}

// end stops the controller as the end of its Pod does: nginx finishes its requests.
func (c *oldController) end(t *testing.T) {
	t.Helper()
	c.stop()
	c.running.Wait()
	must.Do(t, c.Signal(syscall.SIGQUIT))
	c.Wait(t)
}

// compete takes part in the leader election, as internal/ingress/controller of
// ingress-nginx does.
func (c *oldController) compete(ctx context.Context, namespace, identity string) {
	for ctx.Err() == nil {
		var leading sync.WaitGroup
		elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
			Lock: &resourcelock.LeaseLock{
				LeaseMeta: metav1.ObjectMeta{Namespace: namespace, Name: oldLease}, Client: c.api.Client.CoordinationV1(),
				LockConfig: resourcelock.ResourceLockConfig{Identity: identity},
			},
			LeaseDuration: oldElectionTTL, RenewDeadline: oldElectionTTL / 2, RetryPeriod: oldElectionTTL / 4,
			Callbacks: leaderelection.LeaderCallbacks{
				OnStartedLeading: func(ctx context.Context) {
					leading.Add(1)
					defer leading.Done()
					for again := true; again; again = pause(ctx, oldSyncPeriod) {
						c.syncStatus(ctx)
					}
				},
				OnStoppedLeading: func() {},
			},
		})
		if err != nil {
			panic(err) // the settings are constant
		}
		elector.Run(ctx)
		leading.Wait()
	}
}

// syncStatus writes the address into each status that differs. Failed writes are
// repeated with the next one, as in ingress-nginx.
func (c *oldController) syncStatus(ctx context.Context) {
	all, err := c.api.Client.NetworkingV1().Ingresses("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return
	}
	wanted := []networkingv1.IngressLoadBalancerIngress{{IP: c.address}}
	for i := range all.Items {
		ingress := &all.Items[i]
		if !ofOldClass(ingress) || len(ingress.Status.LoadBalancer.Ingress) == 1 && ingress.Status.LoadBalancer.Ingress[0].IP == c.address {
			continue
		}
		ingress.Status.LoadBalancer.Ingress = wanted
		_, _ = c.api.Client.NetworkingV1().Ingresses(ingress.Namespace).UpdateStatus(ctx, ingress, metav1.UpdateOptions{FieldManager: oldManager})
	}
}

func ofOldClass(ingress *networkingv1.Ingress) bool {
	return ingress.Spec.IngressClassName != nil && *ingress.Spec.IngressClassName == "nginx"
}

// configuration is that of nginx: a server for each host, with the endpoints of its
// Services.
func (c *oldController) configuration(t *testing.T, at seat, dir string) string {
	t.Helper()
	all := must.Get(c.api.Client.NetworkingV1().Ingresses("").List(t.Context(), metav1.ListOptions{}))(t)
	servers := &oldServers{at: at, dir: dir}
	for i := range all.Items {
		ingress := &all.Items[i]
		if !ofOldClass(ingress) {
			continue
		}
		for _, rule := range ingress.Spec.Rules {
			c.writeServer(t, servers, ingress, rule)
		}
	}
	return strings.NewReplacer("DIR", dir, "HEALTH", at.On(edgeprocess.HealthPort), "SERVERS", servers.text.String()).Replace(oldConfiguration)
}

// oldServers are the servers of a configuration: where they listen, and the folder of
// their certificates.
type oldServers struct {
	at   seat
	dir  string
	text strings.Builder
}

func (c *oldController) writeServer(t *testing.T, servers *oldServers, ingress *networkingv1.Ingress, rule networkingv1.IngressRule) {
	t.Helper()
	at, dir, to := servers.at, servers.dir, &servers.text
	listen := "listen " + at.On(edgeprocess.PlainPort) + ";"
	if tls := ingress.Spec.TLS; len(tls) > 0 && slices.Contains(tls[0].Hosts, rule.Host) {
		secret := must.Get(c.api.Client.CoreV1().Secrets(ingress.Namespace).Get(t.Context(), tls[0].SecretName, metav1.GetOptions{}))(t)
		for _, key := range []string{"tls.crt", "tls.key"} {
			must.Do(t, os.WriteFile(filepath.Join(dir, rule.Host+"."+key), secret.Data[key], 0o600))
		}
		listen = fmt.Sprintf("listen %s ssl http2; ssl_certificate %s.tls.crt; ssl_certificate_key %[2]s.tls.key;",
			at.On(edgeprocess.TLSPort), filepath.Join(dir, rule.Host))
	}
	for i, path := range rule.HTTP.Paths {
		service := path.Backend.Service.Name
		fmt.Fprintf(to, "upstream %s-%d { %s }\n", rule.Host, i, c.endpoints(t, ingress.Namespace, service))
	}
	fmt.Fprintf(to, "server { %s server_name %s;\n", listen, rule.Host)
	for i, path := range rule.HTTP.Paths {
		location := path.Path
		if ingress.Annotations["nginx.ingress.kubernetes.io/use-regex"] == "true" {
			location = `~* "^` + path.Path + `"`
		}
		fmt.Fprintf(to, "  location %s { proxy_pass http://%s-%d; }\n", location, rule.Host, i)
	}
	to.WriteString("}\n")
}

// endpoints are the servers of an upstream.
func (c *oldController) endpoints(t *testing.T, namespace, service string) string {
	t.Helper()
	found := must.Get(c.api.Client.DiscoveryV1().EndpointSlices(namespace).List(t.Context(),
		metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + service}))(t)
	var text strings.Builder
	for i := range found.Items {
		for _, endpoint := range found.Items[i].Endpoints {
			fmt.Fprintf(&text, "server %s:%d; ", endpoint.Addresses[0], *found.Items[i].Ports[0].Port)
		}
	}
	return text.String()
}

// oldConfiguration has a page for the health check of the balancer.
const oldConfiguration = `daemon off;
user root;
worker_processes 1;
pid DIR/nginx.pid;
error_log DIR/error.log warn;
events { worker_connections 4096; }
http {
  access_log off;
  client_body_temp_path DIR/body;
  proxy_temp_path DIR/proxy;
  fastcgi_temp_path DIR/fastcgi;
  uwsgi_temp_path DIR/uwsgi;
  scgi_temp_path DIR/scgi;
  keepalive_requests 100000;
  proxy_http_version 1.1;
  proxy_set_header Connection "";
  proxy_set_header Host $http_host;
  server { listen HEALTH; location = /readyz { return 200; } }
  SERVERS
}
`
