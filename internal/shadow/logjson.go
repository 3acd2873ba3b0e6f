package shadow

import (
	"encoding/json"
	"strings"
)

// logKeys are the keys of JSON lines for each variable, in lower case; the first that a
// line has counts. They are the names of nginx's variables, those of the example in
// ingress-nginx's documentation, and Traefik's fields.
var logKeys = []struct {
	variable string
	keys     []string
}{
	{"host", []string{"host", "vhost", "http_host", "requesthost", "request_host", "server_name", "domain"}},
	{"request_method", []string{"request_method", "method", "requestmethod"}},
	{"request_uri", []string{"request_uri", "requestpath", "requesturi"}},
	{"request", []string{"request"}},
	{"uri", []string{"uri", "path"}},
	{"args", []string{"args", "query_string", "request_query", "query"}},
	{"scheme", []string{"scheme", "requestscheme", "request_scheme"}},
	{"remote_addr", []string{"remote_addr", "remote_ip", "client_ip", "clienthost", "client"}},
	{"status", []string{"status", "downstreamstatus"}},
	{"http_user_agent", []string{"http_user_agent", "user_agent", "agent"}},
	{"http_referer", []string{"http_referer", "http_referrer", "referer", "referrer"}},
	{"proxy_upstream_name", []string{"proxy_upstream_name", "upstream_name", "servicename"}},
	{"proxy_alternative_upstream_name", []string{"proxy_alternative_upstream_name"}},
}

// canonicalVariable returns the variable that a name of a log format stands for.
func canonicalVariable(name string) string {
	for _, one := range logKeys {
		for _, key := range one.keys {
			if key == name {
				return one.variable
			}
		}
	}
	return name
}

// parseJSONLine parses a line that is a JSON object.
func parseJSONLine(line string) (fields, error) {
	var object map[string]any
	if err := json.Unmarshal([]byte(line), &object); err != nil {
		// nginx writes its own escapes unless the format has escape=json.
		repaired := strings.ReplaceAll(line, `\x`, `\u00`)
		if json.Unmarshal([]byte(repaired), &object) != nil {
			return nil, err
		}
	}
	lower, found := map[string]string{}, fields{}
	for key, value := range object {
		text := jsonText(value)
		lower[strings.ToLower(key)] = text
		// Traefik writes request headers with a prefix and in their own spelling.
		if header, ok := strings.CutPrefix(key, "request_"); ok && header != "" && header[0] >= 'A' && header[0] <= 'Z' {
			found.set("http_"+strings.ReplaceAll(strings.ToLower(header), "-", "_"), text)
		}
		if strings.HasPrefix(key, "http_") && canonicalVariable(key) == key {
			found.set(key, text)
		}
	}
	for _, one := range logKeys {
		for _, key := range one.keys {
			found.set(one.variable, lower[key])
		}
	}
	return found, nil
}

// jsonText returns a value as text; lists and objects have none.
func jsonText(value any) string {
	switch value := value.(type) {
	case string:
		return value
	case float64:
		text, err := json.Marshal(value)
		if err == nil {
			return string(text)
		}
	}
	return ""
}

// unescapeJSON reverses the escapes of a JSON string.
func unescapeJSON(text string) string {
	var plain string
	if strings.Contains(text, `\`) && json.Unmarshal([]byte(`"`+text+`"`), &plain) == nil {
		return plain
	}
	return text
}
