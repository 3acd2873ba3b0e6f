package nginx

import (
	"maps"
	"math"
	"net/netip"
	"slices"
	"strings"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/route"
)

// ParseConfig reads the data of the ConfigMap of ingress-nginx into the settings that
// Ingresses start with. A key that cannot be carried out is a fault.
func ParseConfig(data map[string]string) (*Settings, []refusal.Refusal) {
	settings := Defaults()
	var faults []refusal.Refusal
	for _, name := range slices.Sorted(maps.Keys(data)) {
		value := data[name]
		field := "data[" + refusal.Shorten(name, 120) + "]"
		declared := tables().byKey[name]
		switch {
		case len(faults) == maxFaults:
			return settings, faults
		case declared == nil:
			faults = append(faults, *refusal.New(field, refusal.Unknown, "%s", unknown(name, tables().keyNames)))
		case declared.Support == Refused && !declared.leavesOff(value):
			faults = append(faults, *refusal.New(field, refusal.Unsupported, "it is not supported: %s", declared.Note))
		case declared.Support == Done && strings.TrimSpace(value) != "":
			if err := declared.read(settings, declared.trimmed(value)); err != nil {
				faults = append(faults, *refusal.New(field, refusal.Invalid, "%v", err))
			}
		}
	}
	return settings, faults
}

// asAnnotation is the note of a key that is the default of an annotation.
const asAnnotation = "Default of the annotation of this name."

// defaultKeys are carried out: most are defaults of annotations.
var defaultKeys = []Setting{
	{Name: "proxy-body-size", Support: Done, Note: asAnnotation, Examples: []string{"8m"}, read: readBodySize},
	{Name: "proxy-connect-timeout", Support: Done, Note: asAnnotation, Examples: []string{"10"}, read: setSeconds(func(s *Settings) *route.Duration { return &s.Timeouts.Connect })},
	{Name: "proxy-read-timeout", Support: Done, Note: asAnnotation, Examples: []string{"10"}, read: setSeconds(func(s *Settings) *route.Duration { return &s.stream.read })},
	{Name: "proxy-send-timeout", Support: Done, Note: asAnnotation, Examples: []string{"10"}, read: setSeconds(func(s *Settings) *route.Duration { return &s.stream.send })},
	{Name: "proxy-next-upstream", Support: Done, Note: asAnnotation, Examples: []string{"error"}, read: readNextUpstream},
	{Name: "proxy-next-upstream-tries", Support: Done, Note: asAnnotation, Examples: []string{"2"}, read: readTries},
	{Name: "ssl-redirect", Support: Done, Note: asAnnotation, Examples: []string{"false"}, read: setBool(func(s *Settings) *bool { return &s.TLS.Redirect })},
	{Name: "force-ssl-redirect", Support: Done, Note: asAnnotation, Examples: []string{"true"}, read: setBool(func(s *Settings) *bool { return &s.TLS.Force })},
	{Name: "preserve-trailing-slash", Support: Done, Note: asAnnotation, Examples: []string{"true"}, read: setBool(func(s *Settings) *bool { return &s.TLS.KeepSlash })},
	{Name: "http-redirect-code", Support: Done, Note: "Status of redirects to https and between hosts with and without www.", Examples: []string{"301"}, read: setRedirectStatus(func(s *Settings) *int { return &s.TLS.Status })},
	{Name: "hsts", Support: Done, Note: "Strict-Transport-Security in responses of hosts with TLS whose plain requests are redirected, but for redirects of app-root, permanent-redirect and temporal-redirect, preflight responses and 413. It is on by default.", Examples: []string{"false"}, read: setBool(func(s *Settings) *bool { return &s.TLS.HSTS })},
	{Name: "hsts-max-age", Support: Done, Note: "Seconds of Strict-Transport-Security.", Examples: []string{"600"}, read: setCount(func(s *Settings) *int64 { return &s.TLS.HSTSSeconds }, math.MaxInt32)},
	{Name: "hsts-include-subdomains", Support: Done, Note: "Part of Strict-Transport-Security. It is on by default.", Examples: []string{"false"}, read: setBool(func(s *Settings) *bool { return &s.TLS.Subdomains })},
	{Name: "hsts-preload", Support: Done, Note: "Part of Strict-Transport-Security.", Examples: []string{"true"}, read: setBool(func(s *Settings) *bool { return &s.TLS.Preload })},
	{Name: "app-root", Support: Done, Note: asAnnotation, Examples: []string{"/app"}, read: readAppRoot},
	{Name: "whitelist-source-range", Support: Done, Note: asAnnotation, Examples: []string{"10.0.0.0/8"}, read: setRanges(func(s *Settings) *[]netip.Prefix { return &s.Allow })},
	{Name: "denylist-source-range", Support: Done, Note: asAnnotation, Examples: []string{"10.0.0.0/8"}, read: setRanges(func(s *Settings) *[]netip.Prefix { return &s.Deny })},
	{Name: "limit-req-status-code", Support: Done, Note: "Status of requests over limit-rps or limit-rpm.", Examples: []string{"429"}, read: setStatus(func(s *Settings) *int { return &s.Limits.RequestStatus }, 400, 599)},
	{Name: "limit-conn-status-code", Support: Done, Note: "Status of requests over limit-connections.", Examples: []string{"429"}, read: setStatus(func(s *Settings) *int { return &s.Limits.ConnectionStatus }, 400, 599)},
	{Name: "load-balance", Support: Done, Note: asAnnotation, Examples: []string{"ewma"}, read: readBalance},
	{Name: "upstream-hash-by", Support: Done, Note: asAnnotation, Examples: []string{"$remote_addr"}, read: readHashBy},
	{Name: "service-upstream", Support: Done, Note: asAnnotation, Examples: []string{"true"}, read: setBool(func(s *Settings) *bool { return &s.Backend.Native })},
	{
		Name: "retry-non-idempotent", Support: Done, Note: "Sends requests such as POST again, too.", Examples: []string{"true"},
		read: setBool(func(s *Settings) *bool { return &s.Retry.Unsafe }),
	},
	{
		Name: "allow-snippet-annotations", Support: Done, Note: "Allows configuration-snippet, server-snippet and auth-snippet, as the option `allowSnippetAnnotations`.", Examples: []string{"true"},
		read: setBool(func(s *Settings) *bool { return &s.Snippets.Allowed }),
	},
	{
		Name: "location-snippet", Support: Done, lines: true, Examples: snippetExamples, read: readLocationSnippet,
		Note: "As configuration-snippet, behind it, for the paths of all Ingresses, and for requests that match no path of a host. It needs no permission.",
	},
	{
		Name: "disable-access-log", Support: Done, Note: "Keeps the requests out of the access log.", Examples: []string{"true"},
		read: setBool(func(s *Settings) *bool { return &s.NoAccessLog }),
	},
}

// quiet are the keys without an effect, by the reason.
var quiet = []struct{ reason, names string }{
	{"The edge has buffers and limits of its own.", "client-header-buffer-size client-body-buffer-size large-client-header-buffers http2-max-field-size http2-max-header-size " +
		"proxy-buffers-number proxy-buffer-size proxy-busy-buffers-size proxy-max-temp-file-size proxy-request-buffering proxy-buffering ssl-buffer-size grpc-buffer-size-kb"},
	{"The edge has no worker processes, hash tables and shared dictionaries of nginx.", "worker-processes worker-cpu-affinity worker-shutdown-timeout max-worker-connections " +
		"max-worker-open-files enable-multi-accept reuse-port map-hash-bucket-size server-name-hash-max-size server-name-hash-bucket-size proxy-headers-hash-max-size " +
		"proxy-headers-hash-bucket-size variables-hash-bucket-size variables-hash-max-size lua-shared-dicts enable-serial-reloads enable-aio-write plugins"},
	{"Connections are kept, with timeouts of the edge: `entryPoints.<name>.transport` has those of clients.", "keep-alive keep-alive-requests client-header-timeout " +
		"client-body-timeout upstream-keepalive-connections upstream-keepalive-time upstream-keepalive-timeout upstream-keepalive-requests http2-max-requests " +
		"http2-max-concurrent-streams proxy-http-version proxy-protocol-header-timeout"},
	{"Logs are options of the edge: `accessLog` and `log`.", "access-log-params access-log-path http-access-log-path stream-access-log-path error-log-path error-log-level " +
		"enable-access-log-for-default-backend enable-auth-access-log log-format-escape-none log-format-escape-json log-format-upstream log-format-stream skip-access-log-urls " +
		"enable-syslog syslog-host syslog-port debug-connections"},
	{"Traces are options of the edge: `tracing`.", "enable-opentelemetry opentelemetry-config opentelemetry-operation-name opentelemetry-trust-incoming-span " +
		"otlp-collector-host otlp-collector-port otel-service-name otel-sampler otel-sampler-ratio otel-sampler-parent-based otel-max-queuesize otel-schedule-delay-millis " +
		"otel-max-export-batch-size enable-opentracing opentracing-operation-name opentracing-location-operation-name opentracing-trust-incoming-span zipkin-collector-host " +
		"zipkin-collector-port zipkin-service-name zipkin-sample-rate jaeger-collector-host jaeger-collector-port jaeger-endpoint jaeger-service-name jaeger-propagation-format " +
		"jaeger-sampler-type jaeger-sampler-param jaeger-sampler-host jaeger-sampler-port jaeger-trace-context-header-name jaeger-debug-header jaeger-baggage-header " +
		"jaeger-trace-baggage-header-prefix datadog-collector-host datadog-collector-port datadog-service-name datadog-environment datadog-operation-name-override " +
		"datadog-priority-sampling datadog-sample-rate"},
	{"TLS sessions, tickets and curves are those of Go, and safe.", "ssl-ecdh-curve ssl-dh-param ssl-session-cache ssl-session-cache-size ssl-session-tickets " +
		"ssl-session-ticket-key ssl-session-timeout ssl-early-data enable-ocsp enable-dynamic-tls-records"},
	{"Entry points are options of the edge: addresses, protocols, trusted proxies and the PROXY protocol.", "bind-address bind-address-ipv4 bind-address-ipv6 disable-ipv6 disable-ipv6-dns use-http2 " +
		"use-proxy-protocol proxy-real-ip-cidr use-forwarded-headers enable-real-ip forwarded-for-header forwarded-for-proxy-protocol-header forwarded-host-header compute-full-forwarded-for"},
	{"There is no text of nginx's configuration that it would guard.", "annotations-risk-level annotation-value-word-blocklist " +
		"strict-validate-path-type allow-cross-namespace-resources global-allowed-response-headers"},
	{"There is no status page of nginx.", "nginx-status-ipv4-whitelist nginx-status-ipv6-whitelist"},
	{"The edge sends no header that names its program.", "server-tokens allow-backend-server-header"},
	{"Header names with underscores and invalid ones are not passed on.", "enable-underscores-in-headers ignore-invalid-headers"},
	{"Entry points for TCP and UDP are Gateways.", "proxy-stream-timeout proxy-stream-next-upstream proxy-stream-next-upstream-timeout proxy-stream-next-upstream-tries proxy-stream-responses"},
	{"Without gzip or brotli there is nothing to tune.", "gzip-level gzip-min-length gzip-types gzip-disable brotli-level brotli-min-length brotli-types"},
	{"There is no geographic database.", "use-geoip geoip2-autoreload-in-minutes"},
	{"Backends get the X-Request-ID that a client has sent.", "generate-request-id"},
	{"Redirects of the edge have absolute URLs, which lead clients to the same place.", "relative-redirects"},
	{"The settings are those of an Ingress.", "proxy-ssl-location-only"},
	{"Responses of the edge have a type of their own.", "default-type"},
	{"The limits are by the address of a client.", "limit-conn-zone-variable"},
	{"ACME challenges are served before all rules.", "no-auth-locations no-tls-redirect-locations"},
	{"Limits of several replicas need no memcached server here.", "global-rate-limit-memcached-host global-rate-limit-memcached-port global-rate-limit-memcached-connect-timeout " +
		"global-rate-limit-memcached-max-idle-timeout global-rate-limit-memcached-pool-size global-rate-limit-status-code"},
	{"There are no subsets; upstream-hash-by-subset is refused.", "upstream-hash-by-subset-size"},
}

// quietKeys returns the keys without an effect.
func quietKeys() []Setting {
	var keys []Setting
	for _, group := range quiet {
		for name := range strings.FieldsSeq(group.names) {
			keys = append(keys, Setting{Name: name, Support: NoEffect, Note: group.reason})
		}
	}
	return keys
}

// refusedKeys are not carried out.
var refusedKeys = []Setting{
	{Name: "add-headers", Support: Refused, Note: "use slipway.dev/response-headers on the Ingresses"},
	{Name: "proxy-set-headers", Support: Refused, Note: "use slipway.dev/request-headers on the Ingresses"},
	{Name: "hide-headers", Support: Refused, Note: "use slipway.dev/response-headers with remove on the Ingresses"},
	{Name: "custom-http-errors", Support: Refused, Note: "use custom-http-errors and default-backend on the Ingresses"},
	{Name: "disable-proxy-intercept-errors", Support: Refused, Off: []string{"false"}, Note: "custom-http-errors replaces the pages of the application, too"},
	{Name: "main-snippet", Support: Refused, Note: snippetAdvice},
	{Name: "http-snippet", Support: Refused, Note: snippetAdvice},
	{Name: "server-snippet", Support: Refused, Note: snippetAdvice},
	{Name: "stream-snippet", Support: Refused, Note: snippetAdvice},
	{Name: "block-cidrs", Support: Refused, Note: "use denylist-source-range, here or on the Ingresses"},
	{Name: "block-user-agents", Support: Refused, Note: "the edge does not decide by the user agent, which clients choose"},
	{Name: "block-referers", Support: Refused, Note: "the edge does not decide by the referer, which clients choose"},
	{Name: "use-gzip", Support: Refused, Off: []string{"false"}, Note: "use slipway.dev/compression on the Ingresses"},
	{Name: "enable-brotli", Support: Refused, Off: []string{"false"}, Note: "use slipway.dev/compression on the Ingresses"},
	{Name: "use-geoip2", Support: Refused, Off: []string{"false"}, Note: "there is no geographic database"},
	{Name: "ssl-ciphers", Support: Refused, Note: "name a TLSOption with slipway.dev/tls-options"},
	{Name: "ssl-protocols", Support: Refused, Off: []string{"TLSv1.2 TLSv1.3", "TLSv1.2", "TLSv1.3"}, Note: "name a TLSOption with slipway.dev/tls-options"},
	{Name: "ssl-reject-handshake", Support: Refused, Off: []string{"false"}, Note: "name a TLSOption with sniStrict with slipway.dev/tls-options"},
	{Name: "proxy-cookie-path", Support: Refused, Off: []string{"off"}, Note: "let the application set the path of its cookies"},
	{Name: "proxy-cookie-domain", Support: Refused, Off: []string{"off"}, Note: "let the application set the domain of its cookies"},
	{Name: "proxy-redirect-from", Support: Refused, Off: []string{"off", "default"}, Note: "let the application send the Location that clients can use"},
	{Name: "proxy-redirect-to", Support: Refused, Off: []string{"off"}, Note: "let the application send the Location that clients can use"},
	{Name: "proxy-next-upstream-timeout", Support: Refused, Off: []string{"0"}, Note: "set proxy-next-upstream-tries"},
	{Name: "proxy-add-original-uri-header", Support: Refused, Off: []string{"false"}, Note: "the path of the client is in no header; use X-Forwarded-Prefix"},
	{Name: "use-port-in-redirects", Support: Refused, Off: []string{"false"}, Note: "redirects lead to the ports 80 and 443"},
	{Name: "upstream-hash-by-subset", Support: Refused, Off: []string{"false"}, Note: "a key leads to one endpoint"},
	{Name: "limit-rate", Support: Refused, Off: []string{"0"}, Note: "the edge does not slow down responses"},
	{Name: "limit-rate-after", Support: Refused, Off: []string{"0"}, Note: "the edge does not slow down responses"},
}

// ConfigError returns the faults of a ConfigMap as one error, nil without any.
func ConfigError(faults []refusal.Refusal) error {
	if len(faults) == 0 {
		return nil
	}
	return ConfigFaults(faults)
}

// ConfigFaults are the faults of a ConfigMap as an error.
type ConfigFaults []refusal.Refusal

// Error returns all faults on one line.
func (f ConfigFaults) Error() string { return refusal.Summary(f) }
