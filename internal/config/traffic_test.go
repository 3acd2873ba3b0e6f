package config_test

import (
	"strings"
	"testing"

	"slipway.dev/slipway/internal/config"
)

func TestTrafficOptions(t *testing.T) {
	edge := func(change func(*config.EdgeTraffic)) error {
		options := defaults()
		change(&options.Traffic)
		return options.Validate()
	}
	agent := func(change func(*config.AgentTraffic)) error {
		var options config.Agent
		options.Defaults()
		change(&options.Traffic)
		return options.Validate()
	}
	for want, err := range map[string]error{
		"traffic.secretFile is missing, and traffic.address is set: name the file with the secret that the agent has too": edge(func(o *config.EdgeTraffic) { o.Address = ":8093" }),
		`traffic.edges has "nowhere": write it as host:port`:                                                              agent(func(o *config.AgentTraffic) { o.Edges = []string{"nowhere"} }),
		"traffic.edges has an address twice: keep one":                                                                    agent(func(o *config.AgentTraffic) { o.Edges = []string{"a:1", "b:1", "a:1"} }),
		"traffic.port is 0: choose a number from 1 to 65535":                                                              agent(func(o *config.AgentTraffic) { o.Port = 0 }),
		`traffic.secret is "Not A Name", which is not the name of a Secret`:                                               agent(func(o *config.AgentTraffic) { o.Secret = "Not A Name" }),
	} {
		if err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if err := edge(func(o *config.EdgeTraffic) { o.Address, o.SecretFile = ":8093", "/secret" }); err != nil {
		t.Error(err)
	}
	if err := agent(func(o *config.AgentTraffic) { o.Edges = []string{"edge.example.com:8093", "[::1]:8093"} }); err != nil {
		t.Error(err)
	}
}

func TestSharedLimits(t *testing.T) {
	for _, test := range []struct {
		address, secret string
		peers           []string
		problem         string
	}{
		{"", "", nil, ""},
		{":8094", "/secret", []string{"edge-limits.slipway.svc:8094", "192.0.2.1:8094"}, ""},
		{"", "", []string{"a:1"}, "shared.limits.peers is set, and shared.limits.address is missing"},
		{":8094", "", []string{"a:1"}, "shared.secretFile is missing, and shared.limits.address is set"},
		{":8094", "/secret", nil, "shared.limits.peers is missing, and shared.limits.address is set"},
		{":8094", "/secret", []string{"a"}, `shared.limits.peers has "a": write it as host:port`},
	} {
		options := defaults()
		options.Shared = config.Shared{SecretFile: test.secret, Limits: config.SharedLimits{Address: test.address, Peers: test.peers}}
		err := options.Validate()
		if (err == nil) != (test.problem == "") || err != nil && !strings.Contains(err.Error(), test.problem) {
			t.Errorf("%+v: %v", test, err)
		}
	}
}
