// Package nginx compares the edge, with Ingresses of ingress-nginx, with Debian's nginx.
// nginx has the directives that the documentation of ingress-nginx names for an
// annotation, and the locations that it writes for paths; both get the same requests over
// sockets, and their responses have to agree: status, Location, some headers, the backend
// and what it got.
//
// It guarantees that an annotation that the table calls done is either compared here or
// listed with the reason. It does not cover what ingress-nginx does in Lua, unless nginx
// can do the same.
package nginx

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/edge"
	"slipway.dev/slipway/internal/ingress/engine"
	"slipway.dev/slipway/internal/ingress/nginx"
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
	"slipway.dev/slipway/internal/route"
)

const namespace = "default"

// services are the backends of all tests. Each is a server that reports what it got.
var services = []string{"one", "two", "three"}

// ground has the backends, nginx and the edge.
type ground struct {
	ports  map[string]int
	client *http.Client
	nginx  string
	edge   string
	// replicas are the ports of further endpoints of a service.
	replicas map[string][]int
	// defaults are those of the ConfigMap; nil without one.
	defaults *nginx.Settings
	// tls is set if both have an address for encrypted connections.
	tls *encryption
}

// startBackends starts the servers.
func startBackends(t *testing.T) *ground {
	t.Helper()
	g := &ground{ports: map[string]int{}, replicas: map[string][]int{}}
	for _, name := range services {
		g.ports[name] = startServer(t, echo(name))
	}
	g.startAuthServer(t)
	transport := &http.Transport{MaxIdleConnsPerHost: 16, DisableCompression: true, ExpectContinueTimeout: time.Minute}
	t.Cleanup(transport.CloseIdleConnections)
	g.client = &http.Client{Transport: transport, Timeout: time.Minute, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return g
}

// startServer starts a server and returns its port.
func startServer(t *testing.T, handler http.Handler) int {
	t.Helper()
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	server := &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	return listener.Addr().(*net.TCPAddr).Port
}

// reported start the names of headers that backends report.
var reported = []string{"X-Set-", "Ssl-Client-", "Userid", "Userrole"}

// echo reports the request in headers of the response.
func echo(name string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("X-Backend", name)
		w.Header().Set("X-Got-Target", r.RequestURI)
		w.Header().Set("X-Got-Host", r.Host)
		w.Header().Set("X-Got-Method", r.Method)
		w.Header().Set("X-Got-Prefix", r.Header.Get("X-Forwarded-Prefix"))
		w.Header().Set("X-Got-Location", r.Header.Get("X-Location"))
		for name, values := range r.Header {
			if slices.ContainsFunc(reported, func(start string) bool { return strings.HasPrefix(name, start) }) {
				w.Header().Set("X-Got-"+name, strings.Join(values, ","))
			}
		}
		w.Header().Set("X-Powered-By", "echo")
		w.Header().Set("X-Backend-Version", "1")
		w.Header().Set("X-Got-Auth", r.Header.Get("X-Auth-Request-User")+"|"+r.Header.Get("Authorization")+"|"+r.Header.Get("X-None"))
		// The server of error pages, and an application with errors.
		status := http.StatusOK
		if code := r.Header.Get("X-Code"); code != "" {
			_, _ = fmt.Sscan(code, &status)
		} else if text, found := strings.CutPrefix(r.URL.Path, "/status/"); found {
			_, _ = fmt.Sscan(text, &status)
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, "page of "+name)
	}
}

// startNGINX starts nginx with servers and with what stands before them.
func (g *ground) startNGINX(t *testing.T, before, servers string) {
	t.Helper()
	program, err := exec.LookPath("nginx")
	if err != nil {
		program = "/usr/sbin/nginx"
	}
	dir := t.TempDir()
	// A port that is free now, because nginx does not report the one it gets.
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	g.nginx = listener.Addr().String()
	must.Do(t, listener.Close())
	if g.tls != nil {
		encrypted := programs.FreeAddress(t).String()
		g.tls.addresses[g.nginx] = encrypted
		servers = strings.NewReplacer("LISTEN_TLS", encrypted+" ssl", "ADDRESS_TLS", encrypted, "TLS_DIR", g.tls.dir).Replace(servers)
	}
	text := strings.NewReplacer("DIR", dir, "BEFORE", before, "SERVERS", strings.ReplaceAll(servers, "LISTEN", g.nginx), "LISTEN", g.nginx).Replace(configuration)
	file := filepath.Join(dir, "nginx.conf")
	must.Do(t, os.WriteFile(file, []byte(text), 0o600))
	command := exec.Command(program, "-c", file, "-p", dir, "-e", filepath.Join(dir, "nginx.log"))
	programs.Run(t, "nginx", command).AwaitListener(t, "tcp", g.nginx)
}

// configuration has the settings that ingress-nginx always writes, as far as responses
// depend on them.
const configuration = `load_module /usr/lib/nginx/modules/ngx_http_headers_more_filter_module.so;
daemon off;
master_process off;
pid DIR/nginx.pid;
error_log DIR/nginx.log warn;
events { worker_connections 2048; }
http {
  access_log off;
  client_body_temp_path DIR/body;
  proxy_temp_path DIR/proxy;
  fastcgi_temp_path DIR/fastcgi;
  uwsgi_temp_path DIR/uwsgi;
  scgi_temp_path DIR/scgi;
  keepalive_timeout 120s;
  keepalive_requests 100000;
  server_names_hash_max_size 8192;
  server_names_hash_bucket_size 256;
  server_name_in_redirect off;
  port_in_redirect off;
  default_type text/plain;
  proxy_http_version 1.1;
  limit_req_status 503;
  limit_conn_status 503;
  BEFORE
  server { listen LISTEN default_server; return 404; }
  SERVERS
}
`

// passTo returns the directives that pass a request on.
func (g *ground) passTo(service string) string {
	return fmt.Sprintf(`proxy_set_header Connection ""; proxy_pass http://127.0.0.1:%d;`, g.ports[service])
}

// startEdge serves Ingresses with the edge, and returns what is refused.
func (g *ground) startEdge(t *testing.T, ingresses []*networkingv1.Ingress, secrets ...*snapshot.SecretBody) []refusal.Refusal {
	t.Helper()
	facts := snapshot.New()
	class := &networkingv1.IngressClass{ObjectMeta: metav1.ObjectMeta{Name: "nginx"}}
	class.Spec.Controller = "k8s.io/ingress-nginx"
	facts.Put(class)
	for name := range g.ports {
		putService(facts, name)
	}
	facts.SetKind(snapshot.ConfigMap, snapshot.KindKnown)
	facts.Put(&snapshot.Resource{Kind: snapshot.ConfigMap, Namespace: namespace, Name: "auth-headers", Spec: map[string]any{"X-One": "of $http_host", "X-Two": "fixed"}})
	for _, secret := range secrets {
		facts.Put(secret)
	}
	for _, ingress := range ingresses {
		facts.Put(ingress)
	}
	defaults := nginx.Defaults()
	if g.defaults != nil {
		defaults = g.defaults
	}
	defaults.Snippets.Allowed = true
	points, options := []edge.EntryPoint{edge.DefaultEntryPoint("web", "127.0.0.1:0")}, optionsOf(map[string]bool{"web": false})
	if g.tls != nil {
		secure := edge.DefaultEntryPoint("websecure", "127.0.0.1:0")
		secure.TLS = true
		points, options.EntryPoints = append(points, secure), map[string]bool{"web": false, "websecure": true}
	}
	for i := range points {
		points[i].AcceptGrace = 0 // no load balancer has to notice the end
	}
	options.NGINX.Defaults = defaults
	built := engine.New(facts, options)
	change := built.All().Change
	// Endpoints of a cluster are no addresses of this machine.
	for _, backend := range change.Backends.Added {
		if len(backend.Endpoints) == 0 {
			continue
		}
		backend.Endpoints = nil
		for _, port := range append([]int{g.ports[backend.ID.Name]}, g.replicas[backend.ID.Name]...) {
			backend.Endpoints = append(backend.Endpoints, route.Endpoint{Address: netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), uint16(port))})
		}
	}
	server := must.Get(edge.New(context.Background(), edge.Options{
		EntryPoints: points, Metrics: edge.NewMetrics(prometheus.NewRegistry(), points), Log: slog.New(slog.DiscardHandler),
	}))(t)
	feedback := server.Update(&change)
	for _, problem := range feedback.Problems {
		t.Errorf("the edge has a problem: %s", problem)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		server.Close()
		<-done
	})
	g.edge = server.Addresses()[0].String()
	if g.tls != nil {
		g.tls.addresses[g.edge] = server.Addresses()[1].String()
	}
	return built.Refusals()
}

// putService adds a Service with one endpoint.
func putService(facts *snapshot.Snapshot, name string) {
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	service.Spec.Ports = []corev1.ServicePort{{Port: 80}}
	facts.Put(service)
	port, portName := int32(8080), ""
	facts.Put(&discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: namespace, Name: name + "-1", Labels: map[string]string{discoveryv1.LabelServiceName: name}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: &portName, Port: &port}},
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{"10.0.0.1"}}},
	})
}

// oneWrite is the size up to which a client writes a body with the head at once, so that no
// response can come in between.
const oneWrite = 2048

// send sends a request and returns the parts of its response that are compared.
func (g *ground) send(address string, r request) (outcome, error) {
	var body io.Reader
	if r.size > 0 {
		body = strings.NewReader(strings.Repeat("x", r.size))
	}
	sent, err := http.NewRequest(r.method, "http://"+address+r.target, body)
	if err != nil {
		return outcome{}, err
	}
	sent.Host = r.host
	for _, header := range r.headers {
		name, value, _ := strings.Cut(header, ": ")
		sent.Header.Set(name, value)
	}
	var response *http.Response
	var text []byte
	if r.size > oneWrite || r.tls {
		response, text, err = g.exchange(address, sent, r)
	} else {
		// Without a value it is not sent, and lets the client repeat a POST on another
		// connection if the server has just closed the one that was kept.
		sent.Header["Idempotency-Key"] = []string{}
		response, text, err = read(g.client.Do(sent))
	}
	if err != nil {
		return outcome{}, err
	}
	got := outcome{Page: strings.TrimPrefix(string(text), "page of "), Status: response.StatusCode, Location: response.Header.Get("Location"), Backend: response.Header.Get("X-Backend")}
	got.Target, got.Host, got.Prefix = oneSlash(response.Header.Get("X-Got-Target")), response.Header.Get("X-Got-Host"), response.Header.Get("X-Got-Prefix")
	for _, name := range r.compare {
		value := strings.ReplaceAll(strings.Join(response.Header.Values(name), ","), " ", "")
		// The edge adds the encoding of passwords, which nginx leaves open.
		got.Headers += name + ": " + strings.TrimSuffix(value, `,charset="UTF-8"`) + "\n"
	}
	if response.TLS != nil {
		got.Certificate = response.TLS.PeerCertificates[0].SerialNumber.String()
	}
	got.body = string(text)
	got.location = response.Header.Get("X-Got-Location")
	if !strings.HasPrefix(string(text), "page of ") {
		got.Page = "" // a page of nginx or of the edge itself
	}
	if got.Status >= 400 {
		// The edge keeps the headers of a response whose page is replaced.
		got.Backend, got.Target, got.Host = "", "", ""
	}
	return got, nil
}

// read reads the body of a response.
func read(response *http.Response, err error) (*http.Response, []byte, error) {
	if err != nil {
		return nil, nil, err
	}
	text, err := io.ReadAll(response.Body)
	return response, text, errors.Join(err, response.Body.Close())
}

// exchange sends a request on a connection of its own, and reads the response while the
// request is still being written: a server that refuses a body responds before it has
// read all of it, and closes the connection. A write that fails then is no failed request.
func (g *ground) exchange(address string, sent *http.Request, r request) (response *http.Response, text []byte, err error) {
	if r.tls {
		address = g.tls.addresses[address]
	}
	raw, err := net.DialTimeout("tcp", address, time.Minute)
	if err != nil {
		return nil, nil, err
	}
	defer raw.Close()
	if err := raw.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		return nil, nil, err
	}
	conn := raw
	var state *tls.ConnectionState
	if r.tls {
		encrypted := tls.Client(raw, g.tls.clientOf(r))
		if err := encrypted.Handshake(); err != nil {
			return nil, nil, err
		}
		conn, state = encrypted, new(encrypted.ConnectionState())
	}
	sent.Close = true
	written := make(chan error, 1)
	go func() { written <- sent.Write(conn) }()
	reader := bufio.NewReader(conn)
	for response == nil || response.StatusCode < 200 { // 100 Continue
		if response, err = http.ReadResponse(reader, sent); err != nil {
			_ = raw.Close() // ends the write
			return nil, nil, errors.Join(err, <-written)
		}
	}
	response.TLS = state
	response, text, err = read(response, nil)
	_ = raw.Close()
	<-written
	return response, text, err
}

// oneSlash makes several slashes one: the edge normalises a path that was rewritten.
func oneSlash(path string) string {
	for strings.Contains(path, "//") {
		path = strings.ReplaceAll(path, "//", "/")
	}
	return path
}

// request is a request that both get.
type request struct {
	method, host, target string
	size                 int
	headers              []string
	// tls sends it encrypted, with the client certificate of that name, if there is one.
	tls         bool
	certificate string
	// compare are headers of the response.
	compare []string
}

func (r request) String() string {
	return fmt.Sprintf("%s %s%s %s (%d bytes)", r.method, r.host, r.target, strings.Join(r.headers, " "), r.size)
}

// outcome is what is compared of a response.
type outcome struct {
	Status                                           int
	Location, Backend, Target, Host, Prefix, Headers string
	// Page is the server whose page it is, and Certificate the serial number of the
	// certificate of the connection.
	Page, Certificate string
	// location is the number of nginx's location, and body the text of the response;
	// most tests do not compare them.
	location, body string
}

// agrees compares two outcomes.
func (o outcome) agrees(other outcome) bool {
	o.location, other.location, o.body, other.body = "", "", "", ""
	return o == other
}

// ingressOf returns an Ingress of the class nginx. Its age follows from its number.
func ingressOf(number int, name string, annotations map[string]string) *networkingv1.Ingress {
	class := "nginx"
	made := &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: name, Annotations: annotations,
		CreationTimestamp: metav1.NewTime(time.Date(2026, 1, 1, 0, 0, number, 0, time.UTC)),
	}}
	made.Spec.IngressClassName = &class
	return made
}

// addPath adds a path to the rule of a host.
func addPath(ingress *networkingv1.Ingress, host, path string, kind networkingv1.PathType, service string) {
	at := slices.IndexFunc(ingress.Spec.Rules, func(rule networkingv1.IngressRule) bool { return rule.Host == host })
	if at < 0 {
		at = len(ingress.Spec.Rules)
		ingress.Spec.Rules = append(ingress.Spec.Rules, networkingv1.IngressRule{
			Host: host, IngressRuleValue: networkingv1.IngressRuleValue{HTTP: &networkingv1.HTTPIngressRuleValue{}},
		})
	}
	http := ingress.Spec.Rules[at].HTTP
	http.Paths = append(http.Paths, networkingv1.HTTPIngressPath{
		Path: path, PathType: &kind,
		Backend: networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{Name: service, Port: networkingv1.ServiceBackendPort{Number: 80}}},
	})
}
