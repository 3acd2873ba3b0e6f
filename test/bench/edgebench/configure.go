package main

import (
	"cmp"
	"fmt"
	"os/exec"
	"path"
	"strings"
)

// prepareNginx configures an nginx. The buffers keep large
// responses in memory: by default nginx writes them to temporary files when the
// client is slower than the backend.
func prepareNginx(s *site) (*exec.Cmd, error) {
	var b strings.Builder
	for i, address := range s.backends() {
		fmt.Fprintf(&b, "\tupstream backend-%d { server %s; keepalive 256; keepalive_requests 1000000000; }\n", i, address)
	}
	b.WriteString(`	proxy_http_version 1.1;
	proxy_set_header Connection "";
	proxy_set_header Host $host;
	proxy_set_header X-Forwarded-For $remote_addr;
	proxy_set_header X-Forwarded-Proto $scheme;
	proxy_buffers 16 16k;
	proxy_max_temp_file_size 0;
	server_names_hash_max_size 65536;
	server_names_hash_bucket_size 128;
`)
	listen := s.address + " backlog=4096"
	if s.tls != nil {
		listen += " ssl http2"
		fmt.Fprintf(&b, "\tssl_certificate %s;\n\tssl_certificate_key %s;\n\tssl_protocols TLSv1.2 TLSv1.3;\n", s.tls.chainFile, s.tls.keyFile)
	}
	route := 0
	s.hosts(func(host string, prefixes []string) {
		fmt.Fprintf(&b, "\tserver {\n\t\tlisten %s;\n\t\tserver_name %s;\n", listen, host)
		for _, prefix := range prefixes {
			fmt.Fprintf(&b, "\t\tlocation %s { %s }\n", prefix, nginxPass(s, s.backendOf(route)))
			route++
		}
		b.WriteString("\t}\n")
		listen = s.address // socket options may be given once per address
		if s.tls != nil {
			listen += " ssl http2"
		}
	})
	return nginxCommand(s.dir, cmp.Or(s.workers, usualWorkers), s.connections, b.String())
}

// nginxPass forwards the requests of a location to a backend.
func nginxPass(s *site, backend int) string {
	switch {
	case s.grpc:
		return fmt.Sprintf("grpc_pass grpc://backend-%d;", backend)
	case s.upgrade:
		// Headers set in a location replace all of those above it.
		return fmt.Sprintf(`proxy_pass http://backend-%d; proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection upgrade; proxy_set_header Host $host;`, backend)
	}
	return fmt.Sprintf("proxy_pass http://backend-%d;", backend)
}

// prepareHAProxy configures an HAProxy. It reserves two open files for each connection, and without strict-limits takes as
// many connections all the same when the limit is less: idle ones need one. Many routes become a
// map file that is matched by the prefix of host and path: HAProxy keeps it as
// a tree, where use_backend rules would be a linear list.
func prepareHAProxy(s *site) (*exec.Cmd, error) {
	// HAProxy reads the certificate and its key from one file.
	bind := s.address
	if s.tls != nil {
		bind += " ssl crt " + s.tls.bothFile + " alpn h2,http/1.1"
	}
	var backends strings.Builder
	for i, server := range s.backends() {
		if s.grpc {
			server += " proto h2"
		}
		fmt.Fprintf(&backends, "backend backend-%d\n\tserver backend %s\n", i, server)
	}
	// A single route compares the Host header only, as a hand-written
	// configuration would.
	choose := "use_backend backend-0 if { hdr(host) -i " + s.routes[0].host + " }"
	if len(s.routes) > 1 {
		var routes strings.Builder
		for i, r := range s.routes {
			fmt.Fprintf(&routes, "%s%s backend-%d\n", r.host, r.prefix, s.backendOf(i))
		}
		file, err := s.write("routes.map", routes.String())
		if err != nil {
			return nil, err
		}
		choose = "use_backend %[base,map_beg(" + file + ")]"
	}
	file, err := s.write("haproxy.cfg", fmt.Sprintf(`global
	nbthread %d
	no strict-limits
	maxconn %d
defaults
	mode http
	timeout connect 5s
	timeout client %ds
	timeout server 60s
	option http-keep-alive
	http-reuse always
frontend frontend
	bind %s
	option forwardfor
	http-request set-header X-Forwarded-Proto %s
	%s
%s`, cmp.Or(s.workers, usualWorkers), max(s.connections+otherFiles, 9900), int(idleTime.Seconds()), bind, s.scheme(), choose, &backends))
	if err != nil {
		return nil, err
	}
	return exec.Command("haproxy", "-W", "-db", "-f", file), nil
}

// prepareCaddy configures a Caddy, which sets the X-Forwarded headers by
// default. The routes of one host share a handler, because each handler has its
// own connection pool to the backend. Caddy tries the sites of the hosts one
// after the other, which is its regular behavior and therefore part of the
// measurement.
func prepareCaddy(s *site) (*exec.Cmd, error) {
	var b strings.Builder
	// Without auto_https off, Caddy would also open a listener that redirects
	// HTTP to HTTPS.
	protocols := "h1 h2"
	if s.http3 {
		protocols += " h3"
	}
	fmt.Fprintf(&b, "{\n\tadmin off\n\tauto_https off\n\tservers {\n\t\tprotocols %s\n\t}\n}\n", protocols)
	// Caddy takes the port from the site address and the interface from bind.
	_, port, _ := strings.Cut(s.address, ":")
	route := 0
	s.hosts(func(host string, prefixes []string) {
		fmt.Fprintf(&b, "%s://%s:%s {\n\tbind 127.0.0.1\n", s.scheme(), host, port)
		if s.tls != nil {
			fmt.Fprintf(&b, "\ttls %s %s\n", s.tls.chainFile, s.tls.keyFile)
		}
		transport := "keepalive_idle_conns_per_host 256"
		if s.grpc {
			transport += "\n\t\t\tversions h2c"
		}
		pass := func(matcher, backend string) {
			fmt.Fprintf(&b, "\treverse_proxy %s %s {\n\t\ttransport http {\n\t\t\t%s\n\t\t}\n\t}\n", matcher, backend, transport)
		}
		if s.endpoints != nil {
			for _, prefix := range prefixes {
				pass(path.Join(prefix, "*"), s.endpoints[route])
				route++
			}
			b.WriteString("}\n")
			return
		}
		b.WriteString("\t@parts path")
		for _, prefix := range prefixes {
			b.WriteString(" " + path.Join(prefix, "*"))
		}
		b.WriteString("\n")
		pass("@parts", s.backend)
		b.WriteString("}\n")
	})
	file, err := s.write("Caddyfile", b.String())
	if err != nil {
		return nil, err
	}
	return exec.Command("caddy", "run", "--config", file, "--adapter", "caddyfile"), nil
}
