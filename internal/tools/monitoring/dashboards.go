package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// query is a curve of a panel, or several with one legend.
type query struct{ expression, legend string }

// panel is a graph. One without queries has those that follow from the type of
// its metric.
type panel struct {
	title   string
	metric  string
	by      []string
	unit    string
	queries []query
}

// row is a line of panels with a title.
type row struct {
	title  string
	panels []panel
}

// where selects the Pods that are chosen above the panels.
const where = `namespace=~"$namespace",job=~"$job"`

// quantiles are the curves of a histogram.
var quantiles = []float64{0.5, 0.99}

// chosen are the first rows of the dashboards. All other metrics follow.
var chosen = map[string][]row{
	"edge": {
		{"Traffic", []panel{
			{title: "Requests by status", metric: "slipway_edge_requests_total", by: []string{"status"}},
			{title: "Share of requests with status 5xx", unit: "percentunit", queries: []query{{
				`sum by (entry_point) (rate(slipway_edge_requests_total{` + where + `,status=~"5.."}[$__rate_interval])) / sum by (entry_point) (rate(slipway_edge_requests_total{` + where + `}[$__rate_interval]))`, "{{entry_point}}"}}},
			{title: "Duration of requests", metric: "slipway_edge_request_duration_seconds"},
			{title: "Open connections", metric: "slipway_edge_connections_open", by: []string{"entry_point"}},
			{title: "Connections to endpoints", queries: []query{
				{`sum(rate(slipway_edge_upstream_connects_total{` + where + `}[$__rate_interval]))`, "made"},
				{`sum(rate(slipway_edge_upstream_connect_failures_total{` + where + `}[$__rate_interval]))`, "failed"},
				{`sum(rate(slipway_edge_upstream_ejections_total{` + where + `}[$__rate_interval]))`, "endpoints ejected"},
			}},
			{title: "Refused connections", metric: "slipway_edge_connections_refused_total", by: []string{"reason"}},
		}},
		{"Configuration and certificates", []panel{
			{title: "Refused parts of objects", metric: "slipway_ingress_refusals", by: []string{"kind", "reason"}},
			{title: "Time until a change is served", metric: "slipway_ingress_propagation_seconds"},
			{title: "Time without the API server", metric: "slipway_ingress_table_age_seconds", by: []string{"instance"}},
			{title: "Time until certificates expire", unit: "s", queries: []query{{
				`bottomk(10, min by (name) (slipway_edge_certificate_not_after_seconds{` + where + `} - time()))`, "{{name}}"}}},
			{title: "ACME orders", metric: "slipway_acme_orders_total", by: []string{"resolver", "result"}},
			{title: "Web application firewall", metric: "slipway_edge_waf_requests_total", by: []string{"result"}},
		}},
		process("edge"),
	},
	"agent": {
		{"Applications", []panel{
			{title: "Applications by sync status", metric: "slipway_gitops_applications", by: []string{"sync"}},
			{title: "Applications by health", metric: "slipway_gitops_applications", by: []string{"health"}},
			{title: "Operations that ended", metric: "slipway_gitops_operations_total", by: []string{"phase"}},
			{title: "Duration of a reconcile run", metric: "slipway_gitops_reconcile_seconds"},
			{title: "Queue", metric: "slipway_gitops_queue_length", by: []string{"instance"}},
			{title: "Leader", metric: "slipway_agent_leader", by: []string{"instance"}},
		}},
		{"Sources and renders", []panel{
			{title: "Requests to sources", metric: "slipway_gitops_source_requests_total", by: []string{"what", "result"}},
			{title: "Time of requests to sources", metric: "slipway_gitops_source_request_seconds"},
			{title: "Renders", metric: "slipway_gitops_renders_total", by: []string{"result"}},
			{title: "Time of renders", metric: "slipway_agent_render_seconds"},
			{title: "Requests to the API server", metric: "slipway_gitops_api_requests_total", by: []string{"method", "code"}},
			{title: "Webhooks", metric: "slipway_agent_webhooks_total", by: []string{"provider", "outcome"}},
			{title: "Notifications", metric: "slipway_agent_notifications_total", by: []string{"service", "outcome"}},
		}},
		{"Platform", []panel{
			{title: "Connections of the tunnel", metric: "slipway_tunnel_connections", by: []string{"instance"}},
			{title: "Heartbeats", metric: "slipway_platform_heartbeats_total", by: []string{"outcome"}},
			{title: "Applications that wait for a report", metric: "slipway_report_pending", by: []string{"instance"}},
		}},
		process("agent"),
	},
	"platform": {
		{"Runtimes", []panel{
			{title: "Runtimes with a tunnel", metric: "slipway_hub_runtimes", by: []string{"instance"}},
			{title: "Ends of tunnels", metric: "slipway_hub_disconnects_total", by: []string{"reason"}},
			{title: "Heartbeats of runtimes", metric: "slipway_fleet_heartbeats_total", by: []string{"outcome"}},
			{title: "Requests to runtimes", metric: "slipway_gateway_requests_total", by: []string{"service", "status"}},
			{title: "Time of requests to runtimes", metric: "slipway_gateway_request_seconds"},
			{title: "Reports of runtimes", metric: "slipway_fleet_reports_total", by: []string{"outcome"}},
		}},
		process("platform"),
	},
}

// present are metrics that a role always has: they select its processes.
var present = map[string]string{"edge": "slipway_edge_memory_pressure", "agent": "slipway_agent_leader", "platform": "slipway_hub_runtimes"}

// process is the row about the processes of a role.
func process(name string) row {
	only := ` and on (instance, job) ` + present[name] + `{` + where + `}`
	return row{"Processes", []panel{
		{title: "Memory", unit: "bytes", queries: []query{{`process_resident_memory_bytes{` + where + `}` + only, "{{instance}}"}}},
		{title: "CPU seconds per second", unit: "short", queries: []query{{`rate(process_cpu_seconds_total{` + where + `}[$__rate_interval])` + only, "{{instance}}"}}},
		{title: "Replicas by version", unit: "short", queries: []query{{`count by (version) (slipway_build_info{` + where + `}` + only + `)`, "{{version}}"}}},
	}}
}

// queriesOf returns the curves of a metric by its type.
func queriesOf(m metric, by []string) []query {
	legend := make([]string, 0, len(by))
	for _, label := range by {
		legend = append(legend, "{{"+label+"}}")
	}
	group := func(more ...string) string {
		if all := slices.Concat(by, more); len(all) > 0 {
			return " by (" + strings.Join(all, ", ") + ") "
		}
		return ""
	}
	text := strings.Join(legend, " ")
	switch m.kind {
	case "histogram":
		var made []query
		for _, q := range quantiles {
			made = append(made, query{
				fmt.Sprintf("histogram_quantile(%v, sum%s(rate(%s_bucket{%s}[$__rate_interval])))", q, group("le"), m.name, where),
				strings.TrimSpace(fmt.Sprintf("%s p%v", text, q*100)),
			})
		}
		return made
	case "counter":
		return []query{{fmt.Sprintf("sum%s(rate(%s{%s}[$__rate_interval]))", group(), m.name, where), text}}
	default:
		return []query{{fmt.Sprintf("sum%s(%s{%s})", group(), m.name, where), text}}
	}
}

// unitOf returns Grafana's name of the unit, which is the end of the name.
func unitOf(m metric) string {
	switch {
	case strings.HasSuffix(m.name, "_bytes_total"):
		return "Bps"
	case m.kind == "counter":
		return "ops"
	case strings.HasSuffix(m.name, "_seconds"):
		return "s"
	case strings.HasSuffix(m.name, "_bytes"):
		return "bytes"
	}
	return "short"
}

// rowsOf returns the rows of a role: the chosen ones, and one with the metrics
// that none of them shows.
func rowsOf(r role) ([]row, error) {
	rows, shown := slices.Clone(chosen[r.name]), ""
	for i := range rows {
		rows[i].panels = slices.Clone(rows[i].panels)
		for j := range rows[i].panels {
			p := &rows[i].panels[j]
			if p.metric != "" {
				found, ok := declared(r, p.metric)
				if !ok {
					return nil, fmt.Errorf("the dashboard of slipway %s shows %s, which it does not declare", r.name, p.metric)
				}
				p.queries = queriesOf(found, p.by)
			}
			for _, q := range p.queries {
				if err := r.check(q.expression); err != nil {
					return nil, err
				}
				shown += " " + q.expression
			}
		}
	}
	rest := row{title: "All other metrics"}
	names := metricForm.FindAllString(shown, -1)
	for _, m := range r.metrics {
		if !slices.Contains(names, m.name) && !slices.Contains(names, m.name+"_bucket") {
			title := strings.TrimPrefix(m.name, "slipway_")
			rest.panels = append(rest.panels, panel{title: title, metric: m.name, queries: queriesOf(m, m.labels)})
		}
	}
	return append(rows, rest), nil
}

// declared returns the metric with a name, of any type.
func declared(r role, name string) (metric, bool) {
	i := slices.IndexFunc(r.metrics, func(m metric) bool { return m.name == name })
	if i < 0 {
		return metric{}, false
	}
	return r.metrics[i], true
}

// object is a part of the JSON of a dashboard, whose format has no types.
type object = map[string]any

// dashboardOf returns the dashboard of a role in Grafana's JSON. The last row is
// collapsed: its panels send no queries before it is opened.
func dashboardOf(r role) ([]byte, error) {
	rows, err := rowsOf(r)
	if err != nil {
		return nil, err
	}
	const width, height = 8, 8
	id, y := 0, 0
	next := func() int { id++; return id }
	var panels []object
	for i, line := range rows {
		collapsed := i == len(rows)-1
		head := object{"id": next(), "type": "row", "title": line.title, "collapsed": collapsed, "gridPos": object{"h": 1, "w": 24, "x": 0, "y": y}, "panels": []object{}}
		y++
		below := make([]object, 0, len(line.panels))
		for j, p := range line.panels {
			below = append(below, graph(r, p, next(), object{"h": height, "w": width, "x": j % 3 * width, "y": y + j/3*height}))
		}
		y += (len(line.panels) + 2) / 3 * height
		if collapsed {
			head["panels"] = below
			below = nil
		}
		panels = append(append(panels, head), below...)
	}
	made, err := json.MarshalIndent(object{
		"uid": "slipway-" + r.name, "title": "Slipway / " + r.name, "tags": []string{"slipway"}, "timezone": "browser", "schemaVersion": 39,
		"editable": true, "refresh": "30s", "time": object{"from": "now-3h", "to": "now"}, "panels": panels,
		"templating": object{"list": []object{
			{"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"},
			variable("namespace", "Namespace", "label_values("+present[r.name]+", namespace)"),
			variable("job", "Job", "label_values("+present[r.name]+`{namespace=~"$namespace"}, job)`),
		}},
	}, "", " ")
	return append(made, '\n'), err
}

// source is the data source that is chosen above the panels.
func source() object { return object{"type": "prometheus", "uid": "${datasource}"} }

// variable returns a choice above the panels, all values by default. All is
// every value, also of series without the label.
func variable(name, label, expression string) object {
	return object{
		"name": name, "label": label, "type": "query", "datasource": source(), "refresh": 2, "includeAll": true, "multi": true, "allValue": ".*",
		"query": object{"query": expression, "refId": name}, "definition": expression, "current": object{"text": "All", "value": "$__all"},
	}
}

// graph returns a panel. Its description is the help of the metric.
func graph(r role, p panel, id int, place object) object {
	unit, help := p.unit, ""
	if found, ok := declared(r, p.metric); ok {
		help = found.help
		if unit == "" {
			unit = unitOf(found)
		}
	}
	if unit == "" {
		unit = "ops"
	}
	var targets []object
	for i, q := range p.queries {
		targets = append(targets, object{"refId": string(rune('A' + i)), "datasource": source(), "expr": q.expression, "legendFormat": q.legend})
	}
	return object{
		"id": id, "type": "timeseries", "title": p.title, "description": help, "datasource": source(), "gridPos": place, "targets": targets,
		"fieldConfig": object{"defaults": object{"unit": unit}, "overrides": []object{}},
		"options":     object{"legend": object{"displayMode": "list", "placement": "bottom"}, "tooltip": object{"mode": "multi", "sort": "desc"}},
	}
}
