package platformcmd_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"connectrpc.com/connect"

	"slipway.dev/slipway/internal/cli/clitest"
	"slipway.dev/slipway/internal/install/validate"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/wire/platformv1"
	"slipway.dev/slipway/internal/wire/platformv1/platformv1connect"
)

// TestValidateValues: R33, R34: the platform finds in values what slipway helm
// validate finds, and beside that an account that is another and a name that is taken.
func TestValidateValues(t *testing.T) {
	w := clitest.NewPlatformWorld(t)
	w.Login(t)
	w.Registered(t, "prod")
	client := platformv1connect.NewRuntimeServiceClient(&http.Client{Transport: clitest.Bearer{Token: w.Key(t)}}, w.Url)
	ask := func(request *platformv1.ValidateValuesRequest) *platformv1.ValidateValuesResponse {
		t.Helper()
		response := must.Get(client.ValidateValues(t.Context(), connect.NewRequest(request)))(t)
		return response.Msg
	}
	const good = "global: {platform: {url: https://slipway.example.com, userToken: {secretKeyRef: {name: key}}}, runtime: {name: NAME, ingress: {enabled: true, hosts: [a.example.com], className: nginx}}}\n"
	if got := ask(&platformv1.ValidateValuesRequest{Values: strings.Replace(good, "NAME", "fresh", 1)}); !got.GetOk() || len(got.GetFindings()) > 0 || got.GetMode() != "ingress" || got.GetUrl() != "https://a.example.com" {
		t.Errorf("%v", got)
	}
	taken := strings.Replace(good, "NAME", "prod", 1)
	if got := ask(&platformv1.ValidateValuesRequest{Values: taken}); got.GetOk() || codesOf(got) != "RuntimeNameTaken global.runtime.name" || !strings.Contains(got.GetFindings()[0].GetFix(), "prod-2") {
		t.Errorf("%v", got)
	}
	if got := ask(&platformv1.ValidateValuesRequest{Values: taken, Upgrade: true}); !got.GetOk() {
		t.Errorf("an upgrade: %v", got)
	}
	other := strings.Replace(taken, "platform: {", "platform: {accountId: "+strings.Repeat("a", 24)+", ", 1)
	if got := ask(&platformv1.ValidateValuesRequest{Values: other, Upgrade: true}); codesOf(got) != "AccountDiffers global.platform.accountId" {
		t.Errorf("%v", got)
	}

	// The same mistakes by the command line.
	const wrong = "global: {platfrom: {}, runtime: {name: UPPER}}\nagent: {replicas: 0, config: {log: {level: loud}}}\n"
	file := filepath.Join(t.TempDir(), "values.yaml")
	must.Do(t, os.WriteFile(file, []byte(wrong), 0o600))
	report := validate.Run(t.Context(), validate.Options{Values: strings.NewReader(wrong), Namespace: "slipway"})
	got := ask(&platformv1.ValidateValuesRequest{Values: wrong})
	if len(report.Findings) < 4 || len(got.GetFindings()) != len(report.Findings) {
		t.Fatalf("%d findings, want %d: %v", len(got.GetFindings()), len(report.Findings), got)
	}
	for i, finding := range report.Findings {
		same := got.GetFindings()[i]
		if same.GetCode() != finding.Code || same.GetKey() != finding.Subject || same.GetReason() != finding.Message || same.GetFix() != finding.Fix || same.GetSeverity() != string(finding.Severity) {
			t.Errorf("%v, want %+v", same, finding)
		}
	}
	if _, err := client.ValidateValues(t.Context(), connect.NewRequest(&platformv1.ValidateValuesRequest{Values: strings.Repeat("#", 1<<20+1)})); err == nil {
		t.Error("a large text was read")
	}
}

func codesOf(response *platformv1.ValidateValuesResponse) string {
	var all []string
	for _, finding := range response.GetFindings() {
		all = append(all, finding.GetCode()+" "+finding.GetKey())
	}
	return strings.Join(all, "\n")
}
