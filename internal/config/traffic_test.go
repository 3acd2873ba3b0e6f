package config_test

import (
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
