package main

import (
	"bytes"
	"fmt"
	"strconv"
)

// The severities of alerts: critical needs a person at once, warning on the same
// day.
const (
	critical = "critical"
	warning  = "warning"
)

// alert is an alert of Prometheus. wait is the time for which the expression has
// to be true.
type alert struct {
	name, severity   string
	expression, wait string
	summary          string // with the labels of the series
	means, action    string // for the page and the description
}

// certificate names a certificate in both ways of scraping: the Prometheus Operator
// renames the label namespace of a metric, because the target has one too.
const certificate = `{{ with $labels.exported_namespace }}{{ . }}{{ else }}{{ $labels.namespace }}{{ end }}/{{ $labels.name }}`

// alerts are those of each role. The thresholds are for every installation:
// they report what is broken, not what is busy.
var alerts = map[string][]alert{
	"edge": {
		{name: "SlipwayCertificateExpired", severity: critical, wait: "1m",
			expression: `min by (namespace, exported_namespace, name) (slipway_edge_certificate_not_after_seconds) < time()`,
			summary:    "The certificate " + certificate + " has expired",
			means:      "a certificate that is served has expired", action: "Replace the Secret, or find out why its issuer does not renew it: the status and Events of the object that names it."},
		{name: "SlipwayCertificateExpiresSoon", severity: warning, wait: "1h",
			expression: `(min by (namespace, exported_namespace, name) (slipway_edge_certificate_not_after_seconds) - time() < 7 * 86400) > 0`,
			summary:    "The certificate " + certificate + " expires in {{ $value | humanizeDuration }}",
			means:      "a certificate that is served expires within 7 days", action: "Issuers renew earlier than that: look at the status of the issuer, or replace the Secret."},
		{name: "SlipwayACMEOrdersFail", severity: warning, wait: "30m",
			expression: `sum by (namespace, job, resolver) (increase(slipway_acme_orders_total{result="failed"}[1h])) > 0 unless sum by (namespace, job, resolver) (increase(slipway_acme_orders_total{result=~"issued|renewed"}[1h])) > 0`,
			summary:    "Orders of the ACME resolver {{ $labels.resolver }} fail",
			means:      "the orders of an ACME resolver fail, and none succeeds", action: "Read the Events of the Ingresses: they have the error of the authority."},
		{name: "SlipwayCertificatesMissing", severity: warning, wait: "30m",
			expression: `sum by (namespace, job) (slipway_acme_certificates{state="missing"}) > 0`,
			summary:    "{{ $value }} certificates are requested and not issued",
			means:      "requested certificates are missing for half an hour", action: "Read the Events of the Ingresses and Gateways that request them."},
		{name: "SlipwayEdgeErrorRatio", severity: critical, wait: "5m",
			expression: `sum by (namespace, job, entry_point) (rate(slipway_edge_requests_total{status=~"5.."}[5m])) / sum by (namespace, job, entry_point) (rate(slipway_edge_requests_total[5m])) > 0.05`,
			summary:    "{{ $value | humanizePercentage }} of the requests of {{ $labels.entry_point }} fail",
			means:      "more than 5 % of the requests of an entry point have status 5xx", action: "Open the traffic page of the console: it has the routes and endpoints with errors."},
		{name: "SlipwayEdgeEndpointsUnreachable", severity: warning, wait: "10m",
			expression: `sum by (namespace, job) (rate(slipway_edge_upstream_connect_failures_total[5m])) / (sum by (namespace, job) (rate(slipway_edge_upstream_connects_total[5m])) + sum by (namespace, job) (rate(slipway_edge_upstream_connect_failures_total[5m]))) > 0.1`,
			summary:    "{{ $value | humanizePercentage }} of the connections to endpoints fail",
			means:      "more than 10 % of the connections to endpoints cannot be made", action: "Look for Pods that are ready and do not accept connections, and for a NetworkPolicy."},
		{name: "SlipwayConfigurationRefused", severity: warning, wait: "15m",
			expression: `max by (namespace, job, kind, reason) (slipway_ingress_refusals) > 0`,
			summary:    "{{ $value }} parts of objects of kind {{ $labels.kind }} are refused: {{ $labels.reason }}",
			means:      "parts of Ingresses, routes or policies are refused", action: "Read the status and Events of the objects: they have the field and the reason of each."},
		{name: "SlipwayEdgeTableRefused", severity: critical, wait: "1m",
			expression: `sum by (namespace, job) (increase(slipway_edge_tables_total{result="refused"}[10m])) > 0`,
			summary:    "The edge has refused a routing table and serves the one before",
			means:      "a routing table could not be applied; the one before is served", action: "Read the log of the edge: it has the reason."},
		{name: "SlipwayEdgeBlind", severity: warning, wait: "5m",
			expression: `max by (namespace, job, instance) (slipway_ingress_table_age_seconds) > 120`,
			summary:    "{{ $labels.instance }} could not read the API server for {{ $value | humanizeDuration }}",
			means:      "an edge cannot read the API server, and serves the routes that it has", action: "Check the API server, the network to it and the permissions of the ServiceAccount."},
		{name: "SlipwayEdgeNotLeading", severity: warning, wait: "5m",
			expression: `max by (namespace, job) (slipway_ingress_leader) == 0`,
			summary:    "No edge is the leader: status and Events are not written",
			means:      "no replica of the edge is the leader, so status, Events and certificates are not written", action: "Check the Lease of the edge and the permissions to update it."},
		{name: "SlipwayEdgeShedsLoad", severity: critical, wait: "2m",
			expression: `max by (namespace, job, instance) (slipway_edge_memory_pressure) == 2`,
			summary:    "{{ $labels.instance }} refuses requests because its memory is used up",
			means:      "an edge refuses requests because its memory is used up", action: "Raise the memory limit or the number of replicas, or find the clients that hold the memory."},
	},
	"agent": {
		{name: "SlipwayAgentNotLeading", severity: critical, wait: "5m",
			expression: `max by (namespace, job) (slipway_agent_leader) == 0`,
			summary:    "No agent is the leader: nothing is deployed",
			means:      "no replica of the agent is the leader, so nothing is deployed", action: "Check the Lease of the agent, the permissions to update it, and the log."},
		{name: "SlipwaySyncsFail", severity: warning, wait: "10m",
			expression: `sum by (namespace, job) (increase(slipway_gitops_operations_total{phase=~"Failed|Error"}[15m])) > 0`,
			summary:    "{{ $value | humanize }} syncs have failed within 15 minutes",
			means:      "syncs of Applications end with an error", action: "Run `slipway app list`: it shows the Applications, and `slipway app get NAME` the error of each object."},
		{name: "SlipwayApplicationsDegraded", severity: warning, wait: "15m",
			expression: `sum by (namespace, job) (slipway_gitops_applications{health="Degraded"}) > 0`,
			summary:    "{{ $value }} Applications are degraded",
			means:      "Applications are degraded for 15 minutes", action: "Run `slipway app list`, and `slipway app get NAME` for the objects of one."},
		{name: "SlipwayApplicationsUnknown", severity: warning, wait: "15m",
			expression: `sum by (namespace, job) (slipway_gitops_applications{sync="Unknown"}) > 0`,
			summary:    "The desired state of {{ $value }} Applications is unknown",
			means:      "the source of Applications cannot be fetched or rendered", action: "Run `slipway app get NAME`: the conditions of the Application have the error."},
		{name: "SlipwaySourcesUnreachable", severity: warning, wait: "15m",
			expression: `sum by (namespace, job) (rate(slipway_gitops_source_requests_total{result!="ok"}[10m])) / sum by (namespace, job) (rate(slipway_gitops_source_requests_total[10m])) > 0.5`,
			summary:    "{{ $value | humanizePercentage }} of the requests to Git servers and registries fail",
			means:      "more than half of the requests to Git servers, chart repositories and registries fail", action: "Run `slipway doctor`: it checks network, certificates and credentials."},
		{name: "SlipwayAgentAPIErrors", severity: warning, wait: "10m",
			expression: `sum by (namespace, job) (rate(slipway_gitops_api_requests_total{code=~"5..|429"}[5m])) / sum by (namespace, job) (rate(slipway_gitops_api_requests_total[5m])) > 0.1`,
			summary:    "{{ $value | humanizePercentage }} of the requests to the API server fail",
			means:      "more than 10 % of the agent's requests to the API server are refused for load or fail", action: "Check the API server, and its limits for the ServiceAccount of the agent."},
		{name: "SlipwayAgentQueueGrows", severity: warning, wait: "15m",
			expression: `min_over_time(slipway_gitops_queue_length[15m]) > 50`,
			summary:    "At least {{ $value }} items wait for a worker of {{ $labels.instance }}",
			means:      "more than 50 items wait for a worker for 15 minutes", action: "Compare the times of renders and of requests to sources in the dashboard, and raise the limits of CPU or the number of workers."},
		{name: "SlipwayTunnelDown", severity: critical, wait: "5m",
			expression: `max by (namespace, job) (slipway_tunnel_connections) == 0 and on (namespace, job) sum by (namespace, job) (slipway_tunnel_connects_total) > 0`,
			summary:    "The tunnel to the platform is down",
			means:      "a runtime that is reached by the tunnel has no connection; deployments go on, the console and webhooks do not reach it", action: "Run `slipway doctor`: it checks address, proxies, certificates and credentials."},
		{name: "SlipwayPlatformUnreachable", severity: warning, wait: "5m",
			expression: `sum by (namespace, job) (increase(slipway_platform_heartbeats_total{outcome="failed"}[10m])) > 0 unless sum by (namespace, job) (increase(slipway_platform_heartbeats_total{outcome="ok"}[10m])) > 0`,
			summary:    "The runtime does not reach its platform",
			means:      "all heartbeats to the platform fail; deployments go on", action: "Run `slipway doctor`."},
		{name: "SlipwayCredentialRefused", severity: critical, wait: "5m",
			expression: `max by (namespace, job, phase) (slipway_platform_phase{phase=~"KeyMissing|KeyRejected|NameTaken|Refused|Revoked"}) == 1`,
			summary:    "The platform does not accept the runtime: {{ $labels.phase }}",
			means:      "the platform does not accept the runtime or its credential", action: "Run `slipway doctor`, which has the fix for each phase."},
		{name: "SlipwayReportsWait", severity: warning, wait: "30m",
			expression: `min_over_time(slipway_report_pending[30m]) > 0`,
			summary:    "The platform does not have the newest state of {{ $value }} Applications",
			means:      "reports wait for the platform for half an hour; the console shows an older state", action: "Check the platform and the connection to it; nothing is lost."},
		{name: "SlipwayClockSkew", severity: warning, wait: "10m",
			expression: `abs(slipway_platform_clock_skew_seconds) > 60`,
			summary:    "The clocks of {{ $labels.instance }} and the platform differ by {{ $value }} seconds",
			means:      "the clocks of runtime and platform differ by more than a minute, and tokens are refused", action: "Repair the time synchronisation of the node."},
	},
	"platform": {
		{name: "SlipwayTunnelsLost", severity: warning, wait: "5m",
			expression: `sum by (namespace, job) (increase(slipway_hub_disconnects_total{reason="lost"}[10m])) > 10`,
			summary:    "{{ $value | humanize }} tunnels were lost within 10 minutes",
			means:      "more than 10 tunnels are lost within 10 minutes", action: "Check the timeouts of proxies and load balancers in front of the platform: they must not end WebSockets."},
		{name: "SlipwayRuntimeRequestsFail", severity: warning, wait: "10m",
			expression: `sum by (namespace, job, service) (rate(slipway_gateway_requests_total{status="5xx"}[5m])) / sum by (namespace, job, service) (rate(slipway_gateway_requests_total[5m])) > 0.1`,
			summary:    "{{ $value | humanizePercentage }} of the requests to runtimes fail ({{ $labels.service }})",
			means:      "more than 10 % of the requests to runtimes fail", action: "Run `slipway runtime list`: it shows which runtimes are offline."},
		{name: "SlipwayHeartbeatsFail", severity: critical, wait: "5m",
			expression: `sum by (namespace, job) (increase(slipway_fleet_heartbeats_total{outcome="failed"}[10m])) > 0`,
			summary:    "The platform fails to record heartbeats",
			means:      "heartbeats of runtimes cannot be recorded", action: "Check the database: the log of the platform has the error."},
		{name: "SlipwayReportsFail", severity: warning, wait: "10m",
			expression: `sum by (namespace, job) (increase(slipway_fleet_reports_total{outcome="failed"}[10m])) > 0`,
			summary:    "The platform fails to store reports of runtimes",
			means:      "reports of runtimes cannot be stored; runtimes send them again", action: "Check the database: the log of the platform has the error."},
		{name: "SlipwayCredentialReused", severity: critical, wait: "0m",
			expression: `sum by (namespace, job) (increase(slipway_fleet_renewals_total{outcome="reused"}[15m])) > 0`,
			summary:    "A runtime's credential was used that was renewed already",
			means:      "a credential was used again after its renewal: two agents have it, or it was stolen", action: "Run `slipway audit list` for the runtime, and revoke its credential."},
		{name: "SlipwayAuditExportLoses", severity: warning, wait: "0m",
			expression: `sum by (namespace, job) (increase(slipway_audit_export_lost_total[15m])) > 0`,
			summary:    "{{ $value | humanize }} audit entries did not reach the collector",
			means:      "audit entries were not exported", action: "Check the collector. `slipway audit export` has all entries."},
	},
}

// rulesOf returns the alerts of a role as a file for rule_files of Prometheus.
func rulesOf(r role) ([]byte, error) {
	var made bytes.Buffer
	fmt.Fprintf(&made, "# Written by make generate. Change internal/tools/monitoring, not this file.\ngroups:\n  - name: slipway-%s\n    rules:\n", r.name)
	for _, one := range alerts[r.name] {
		if err := r.check(one.expression); err != nil {
			return nil, fmt.Errorf("alert %s: %w", one.name, err)
		}
		// A quoted Go string is a YAML string too.
		fmt.Fprintf(&made, "      - alert: %s\n        expr: %s\n        for: %s\n        labels:\n          severity: %s\n        annotations:\n          summary: %s\n          description: %s\n",
			one.name, strconv.Quote(one.expression), one.wait, one.severity, strconv.Quote(one.summary), strconv.Quote(one.action))
	}
	return made.Bytes(), nil
}
