package accesslog

import (
	"crypto/tls"
	"strconv"
	"time"

	"slipway.dev/slipway/internal/edge/normalize"
	"slipway.dev/slipway/internal/edge/proxy"
	"slipway.dev/slipway/internal/route"
)

// field is one value of a line. value appends nothing for a record that does not
// have it.
// The number is that of the request, for RequestCount.
type field struct {
	name  string
	value func(dst []byte, r *proxy.Record, number uint64) []byte
}

// The fields of the common log format.
const (
	startUTC              = "StartUTC"
	clientHost            = "ClientHost"
	clientUsername        = "ClientUsername"
	requestMethod         = "RequestMethod"
	requestPath           = "RequestPath"
	requestQuery          = "RequestQuery"
	requestProtocol       = "RequestProtocol"
	downstreamStatus      = "DownstreamStatus"
	downstreamContentSize = "DownstreamContentSize"
	requestCount          = "RequestCount"
	routerName            = "RouterName"
	serviceAddr           = "ServiceAddr"
	duration              = "Duration"
)

// fieldTable has the fields in the order of a JSON line. The names are those of
// Traefik, where it has the field, so that existing parsers work; times are
// nanoseconds.
var fieldTable = [...]field{
	{startUTC, func(dst []byte, r *proxy.Record, _ uint64) []byte {
		return append(r.Began.UTC().AppendFormat(append(dst, '"'), time.RFC3339Nano), '"')
	}},
	// The part of the request that the connection determines.
	{"entryPointName", func(dst []byte, r *proxy.Record, _ uint64) []byte { return text(dst, r.EntryPoint) }},
	// ClientHost is the client behind trusted proxies, ClientAddr the other end of the
	// connection with its port.
	{clientHost, func(dst []byte, r *proxy.Record, _ uint64) []byte {
		if !r.Client.IsValid() {
			return dst
		}
		return append(r.Client.Unmap().AppendTo(append(dst, '"')), '"')
	}},
	{"ClientAddr", func(dst []byte, r *proxy.Record, _ uint64) []byte {
		if !r.Peer.IsValid() {
			return dst
		}
		return append(r.Peer.AppendTo(append(dst, '"')), '"')
	}},
	// The user that a filter authenticated, such as basicAuth.
	{clientUsername, func(dst []byte, r *proxy.Record, _ uint64) []byte { return text(dst, r.User) }},
	{requestMethod, func(dst []byte, r *proxy.Record, _ uint64) []byte { return text(dst, r.Method) }},
	// A TCP route has no scheme, because its bytes are not parsed.
	{"RequestScheme", func(dst []byte, r *proxy.Record, _ uint64) []byte {
		switch {
		case r.TCPRoute != nil:
			return dst
		case r.TLS:
			return append(dst, `"https"`...)
		}
		return append(dst, `"http"`...)
	}},
	{"RequestHost", func(dst []byte, r *proxy.Record, _ uint64) []byte { return text(dst, r.Host) }},
	// The port of the Host header, not that of the entry point.
	{"RequestPort", func(dst []byte, r *proxy.Record, _ uint64) []byte {
		if r.Head == nil || r.Head.URI.Port == 0 {
			return dst
		}
		return strconv.AppendUint(dst, uint64(r.Head.URI.Port), 10)
	}},
	// The normalised path, which is the one that was matched and forwarded.
	{requestPath, func(dst []byte, r *proxy.Record, _ uint64) []byte { return text(dst, r.Path) }},
	{requestQuery, func(dst []byte, r *proxy.Record, _ uint64) []byte { return text(dst, queryOf(r)) }},
	{requestProtocol, func(dst []byte, r *proxy.Record, _ uint64) []byte { return text(dst, r.Protocol) }},
	// Bytes of the body without its framing, as far as they were read.
	{"RequestContentSize", func(dst []byte, r *proxy.Record, _ uint64) []byte { return strconv.AppendInt(dst, r.Received, 10) }},
	// Rule and backend by their identities; a request without a rule has neither.
	{routerName, func(dst []byte, r *proxy.Record, _ uint64) []byte {
		if r.Rule == nil && r.TCPRoute == nil {
			return dst
		}
		return append(appendRouter(append(dst, '"'), r, appendJSONText), '"')
	}},
	{"ServiceName", func(dst []byte, r *proxy.Record, _ uint64) []byte {
		if r.Backend == nil {
			return dst
		}
		return append(appendBackend(append(dst, '"'), *r.Backend, appendJSONText), '"')
	}},
	// The endpoint of the last attempt.
	{serviceAddr, func(dst []byte, r *proxy.Record, _ uint64) []byte { return text(dst, r.Endpoint) }},
	// The revision of the endpoint: stable or canary, while there is a Release.
	{"ServiceRevision", func(dst []byte, r *proxy.Record, _ uint64) []byte {
		if r.Revision == "" {
			return dst
		}
		return text(dst, r.Revision)
	}},
	// The response of the backend; OriginStatus is absent where the edge responded
	// itself.
	{"OriginStatus", func(dst []byte, r *proxy.Record, _ uint64) []byte {
		if r.Response == nil {
			return dst
		}
		return strconv.AppendInt(dst, int64(r.Response.Status), 10)
	}},
	{"OriginDuration", func(dst []byte, r *proxy.Record, _ uint64) []byte {
		return strconv.AppendInt(dst, int64(r.Upstream), 10)
	}},
	// Before compression; DownstreamContentSize is after it.
	{"OriginContentSize", func(dst []byte, r *proxy.Record, _ uint64) []byte { return strconv.AppendInt(dst, r.Origin, 10) }},
	{downstreamStatus, func(dst []byte, r *proxy.Record, _ uint64) []byte { return strconv.AppendInt(dst, int64(r.Status), 10) }},
	{downstreamContentSize, func(dst []byte, r *proxy.Record, _ uint64) []byte { return strconv.AppendInt(dst, r.Sent, 10) }},
	{duration, func(dst []byte, r *proxy.Record, _ uint64) []byte {
		return strconv.AppendInt(dst, int64(r.Duration), 10)
	}},
	// The time that the edge itself took. It cannot be negative, but clocks of two
	// measurements differ by some nanoseconds.
	{"Overhead", func(dst []byte, r *proxy.Record, _ uint64) []byte {
		return strconv.AppendInt(dst, int64(max(0, r.Duration-r.Upstream)), 10)
	}},
	{"RetryAttempts", func(dst []byte, r *proxy.Record, _ uint64) []byte {
		return strconv.AppendInt(dst, int64(r.Retries()), 10)
	}},
	// The number of the record since the start of the process. A gap in a file shows
	// lines that were filtered or dropped.
	{requestCount, func(dst []byte, _ *proxy.Record, number uint64) []byte { return strconv.AppendUint(dst, number, 10) }},
	// The TLS parameters of the client's connection.
	{"TLSVersion", func(dst []byte, r *proxy.Record, _ uint64) []byte {
		if r.TLSVersion == 0 {
			return dst
		}
		return text(dst, tls.VersionName(r.TLSVersion))
	}},
	{"TLSCipher", func(dst []byte, r *proxy.Record, _ uint64) []byte {
		if r.CipherSuite == 0 {
			return dst
		}
		return text(dst, cipherName(r.CipherSuite))
	}},
	{"Upgraded", func(dst []byte, r *proxy.Record, _ uint64) []byte {
		if !r.Upgraded {
			return dst
		}
		return append(dst, "true"...)
	}},
	// Why the edge responded itself, or why the exchange failed.
	{"Reason", func(dst []byte, r *proxy.Record, _ uint64) []byte { return text(dst, r.Reason) }},
}

// text appends a value that is left out when it is empty.
func text(dst []byte, value string) []byte {
	if value == "" {
		return dst
	}
	return appendJSON(dst, value)
}

// cipherName is tls.CipherSuiteName without its allocations for the suites that are
// in use.
func cipherName(suite uint16) string {
	switch suite {
	case tls.TLS_AES_128_GCM_SHA256:
		return "TLS_AES_128_GCM_SHA256"
	case tls.TLS_AES_256_GCM_SHA384:
		return "TLS_AES_256_GCM_SHA384"
	case tls.TLS_CHACHA20_POLY1305_SHA256:
		return "TLS_CHACHA20_POLY1305_SHA256"
	case tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256:
		return "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"
	case tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256:
		return "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"
	}
	return tls.CipherSuiteName(suite)
}

// queryOf returns the query of the request without its question mark.
func queryOf(r *proxy.Record) string {
	if r.Head == nil {
		return ""
	}
	return normalize.View(r.Head.URI.Query)
}

// appendRouter appends the text of ID.String without making the string. escape is
// for the parts that come from objects, whose names a tenant chooses.
func appendRouter(dst []byte, r *proxy.Record, escape func([]byte, string) []byte) []byte {
	var id route.ID
	switch {
	case r.Rule != nil:
		id = r.Rule.ID
	case r.TCPRoute != nil:
		id = route.ID(r.TCPRoute.ID)
	default:
		return dst
	}
	if id.Kind != "" {
		dst = append(escape(dst, id.Kind), ' ')
	}
	dst = appendObject(dst, id.Namespace, id.Name, escape)
	dst = strconv.AppendInt(append(dst, '['), int64(id.Rule), 10)
	dst = strconv.AppendInt(append(dst, "]["...), int64(id.Path), 10)
	dst = append(dst, ']')
	if id.Variant != "" {
		dst = escape(append(dst, ' '), id.Variant)
	}
	return dst
}

// appendBackend appends the text of BackendID.String.
func appendBackend(dst []byte, id route.BackendID, escape func([]byte, string) []byte) []byte {
	dst = appendObject(dst, id.Namespace, id.Name, escape)
	dst = strconv.AppendUint(append(dst, ':'), uint64(id.Port), 10)
	if id.Variant != "" {
		dst = escape(append(dst, ' '), id.Variant)
	}
	return dst
}

// appendObject appends namespace/name.
func appendObject(dst []byte, namespace, name string, escape func([]byte, string) []byte) []byte {
	if namespace != "" {
		dst = append(escape(dst, namespace), '/')
	}
	return escape(dst, name)
}
