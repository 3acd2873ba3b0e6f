// Package shadow runs slipway migrate shadow with Debian's nginx as the old controller and
// the built edge as the new one: differences that are planted in their configurations have
// to be found, each with its cause, and none where both do the same.
package shadow

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"slipway.dev/slipway/internal/edge/filetable"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
	"slipway.dev/slipway/internal/route"
	"slipway.dev/slipway/internal/shadow"
	"slipway.dev/slipway/test/conformance/edgeprocess"
)

func TestMain(m *testing.M) { edgeprocess.Main(m) }

// ground has the backends and both controllers.
type ground struct {
	backends map[string]netip.AddrPort
	// unsafe counts requests to backends that may change something.
	unsafe, flips atomic.Int64
	nginx, edge   string
	admin         string
}

// newGround starts the backends: one and two are the same but for their names, slow does
// not respond, and flapping has another page for each request.
func newGround(t *testing.T) *ground {
	g := &ground{backends: map[string]netip.AddrPort{}}
	for _, name := range []string{"one", "two", "slow", "flapping"} {
		server := httptest.NewServer(g.backend(name))
		t.Cleanup(server.Close)
		g.backends[name] = server.Listener.Addr().(*net.TCPAddr).AddrPort()
	}
	return g
}

// backend responds with its name, and the host and target that it got.
func (g *ground) backend(name string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			g.unsafe.Add(1)
		}
		header := w.Header()
		header.Set("Content-Type", "text/plain")
		header.Set("Cache-Control", "max-age=60, public")
		header.Set("ETag", `"v1"`)
		// These are another in each response, and no difference.
		number := strconv.FormatInt(g.flips.Add(1), 10)
		header.Set("X-Request-Id", number)
		header.Set("Set-Cookie", "session="+number+"; Path=/; HttpOnly; SameSite=Lax")
		switch {
		case name == "slow":
			<-r.Context().Done()
			return
		case name == "flapping":
			fmt.Fprintf(w, "page %s\n", number)
			return
		case strings.Contains(r.URL.Path, "/missing"):
			w.WriteHeader(http.StatusNotFound)
		}
		fmt.Fprintf(w, "%s %s %s\n%s", name, r.Host, r.URL.EscapedPath(), strings.Repeat("All work and no play. ", 40))
	}
}

// pass returns the directives that pass a request to a backend.
func (g *ground) pass(name string) string {
	return `proxy_set_header Connection ""; proxy_set_header Host $http_host; proxy_redirect off; proxy_pass http://` + g.backends[name].String() + ";"
}

// startNGINX runs nginx with servers, in which LISTEN is its address.
func (g *ground) startNGINX(t *testing.T, servers string) {
	t.Helper()
	program, err := exec.LookPath("nginx")
	if err != nil {
		program = "/usr/sbin/nginx"
	}
	dir := t.TempDir()
	// nginx does not report a port that it gets.
	g.nginx = programs.FreeAddress(t).String()
	text := strings.NewReplacer("DIR", dir, "SERVERS", servers, "LISTEN", g.nginx).Replace(configuration)
	text = strings.ReplaceAll(text, "LISTEN", g.nginx)
	file := filepath.Join(dir, "nginx.conf")
	must.Do(t, os.WriteFile(file, []byte(text), 0o600))
	command := exec.Command(program, "-c", file, "-p", dir, "-e", filepath.Join(dir, "nginx.log"))
	programs.Run(t, "nginx", command).AwaitListener(t, "tcp", g.nginx)
}

const configuration = `daemon off;
master_process off;
pid DIR/nginx.pid;
error_log DIR/nginx.log warn;
events { worker_connections 4096; }
http {
  log_format upstreaminfo '$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_referer" "$http_user_agent" $request_length $request_time [$proxy_upstream_name] [] - - - - -';
  access_log off;
  client_body_temp_path DIR/body;
  proxy_temp_path DIR/proxy;
  fastcgi_temp_path DIR/fastcgi;
  uwsgi_temp_path DIR/uwsgi;
  scgi_temp_path DIR/scgi;
  keepalive_timeout 120s;
  keepalive_requests 1000000;
  server_names_hash_max_size 8192;
  server_names_hash_bucket_size 256;
  server_name_in_redirect off;
  port_in_redirect off;
  default_type text/plain;
  proxy_http_version 1.1;
  gzip_min_length 1;
  gzip_proxied any;
  gzip_types text/plain;
  map $host $proxy_upstream_name { default "default-one-80"; }
  server { listen LISTEN default_server; return 404; }
  SERVERS
}
`

// startEdge runs an edge with rules, in the form of a routes file.
func (g *ground) startEdge(t *testing.T, rules string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "rules.yaml")
	must.Do(t, os.WriteFile(file, []byte("rules:\n"+rules), 0o600))
	_, table, err := filetable.Open(file)
	must.Do(t, err)
	for name, address := range g.backends {
		table.Backends = append(table.Backends, &route.Backend{
			ID: route.BackendID{Namespace: "default", Name: name, Port: 80}, Endpoints: []route.Endpoint{{Address: address}},
		})
	}
	running := edgeprocess.Start(t, edgeprocess.Options{Table: table})
	g.edge, g.admin = running.Address("web"), running.Process.Address(t, "admin")
}

// target returns a controller at an address.
func target(t *testing.T, address string, timeout time.Duration) *shadow.Target {
	t.Helper()
	made := must.Get(shadow.NewTarget(address, shadow.TargetOptions{Timeout: timeout, MaxBody: 1 << 20}))(t)
	t.Cleanup(made.Close)
	return made
}

// command runs slipway migrate shadow as a process.
func command(words ...string) *exec.Cmd {
	made := exec.Command(os.Getenv("SLIPWAY_UNDER_TEST"), append([]string{"migrate", "shadow"}, words...)...)
	made.Env = programs.UserEnvironment()
	return made
}
