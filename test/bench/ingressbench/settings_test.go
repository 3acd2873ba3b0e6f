package main

import (
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"slipway.dev/slipway/internal/kube/kubetest/privatenet"
	"slipway.dev/slipway/internal/must"
)

func TestSettings(t *testing.T) {
	s := must.Get(parseSettings([]string{"-sizes", "10, 20", "-rate=20", "-env=GOGC=50", "-env=A=b", "-option=--log.level=warn"}, io.Discard))(t)
	if !slices.Equal(s.sizes, []int{10, 20}) || s.pace() != 50*time.Millisecond ||
		!slices.Equal(s.Environment, []string{"GOGC=50", "A=b"}) || !slices.Equal(s.Options, []string{"--log.level=warn"}) {
		t.Errorf("got %+v", s)
	}
}

func TestSettingsRefused(t *testing.T) {
	for want, args := range map[string][]string{
		"must ascend":      {"-sizes=20,10"},
		`"" is not`:        {"-sizes="},
		`"30001" is not`:   {"-sizes=30001"},
		"-samples is 0":    {"-samples=0"},
		"-rate is 101":     {"-rate=101"},
		"-settle is -1s":   {"-settle=-1s"},
		"-duration is 1ms": {"-duration=1ms"},
		"-rounds is 201":   {"-rounds=201"},
		"-gateways is 0":   {"-gateways=0"},
		"choose one":       {"-gateway", "-nginx"},
		"is none of":       {"-only=load,idle"},
		"only nginx is":    {"-peer=apache"},
		"is not a flag":    {"1000"},
	} {
		if _, err := parseSettings(args, io.Discard); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", args, err, want)
		}
	}
}

// Phases that cannot be left out are run in any case.
func TestOnly(t *testing.T) {
	s := must.Get(parseSettings([]string{"-only=load, shared"}, io.Discard))(t)
	for phase, want := range map[string]bool{phaseCold: true, phaseIdle: true, phaseEnd: true, phaseCreate: false, phaseLoad: true, phaseShared: true, phaseBeside: false, phaseListeners: false} {
		if s.measures(phase) != want {
			t.Errorf("%s: measured is %t", phase, !want)
		}
	}
	// Without Gateways there are no routes beside Ingresses, and no listeners to change.
	for args, want := range map[string]bool{"-tls": false, "-gateway": true} {
		if s := must.Get(parseSettings([]string{args}, io.Discard))(t); s.measures(phaseListeners) != want || s.measures(phaseBeside) != want {
			t.Errorf("%s: phases of Gateways are measured: %t", args, !want)
		}
	}
}

// Every application has two addresses of its own, at the largest size
// too.
func TestEndpoints(t *testing.T) {
	seen := map[string]bool{}
	for i := range maxSize {
		for _, moved := range []bool{false, true} {
			address := endpointOf(i, moved)
			if !privatenet.PodNetwork().Contains(address) || seen[address.String()] {
				t.Fatalf("application %d has %s, which is outside or taken", i, address)
			}
			seen[address.String()] = true
		}
	}
}
