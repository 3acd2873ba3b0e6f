package route

import (
	"strings"
	"testing"
)

// TestHostileDirectives: none reads or writes a file, opens a connection, runs a program,
// changes the edge or makes it slow. The error names the directive.
func TestHostileDirectives(t *testing.T) {
	for text, fragment := range map[string]string{
		"Include /etc/passwd":                                            `"Include"`,
		"include ../x.conf":                                              "reads no files",
		"Include @owasp_crs/../../etc/passwd":                            "reads no files",
		"Include *":                                                      "reads no files",
		"IncludeOptional /etc/passwd":                                    `"IncludeOptional"`,
		"SecRemoteRules key https://a.example/":                          `"SecRemoteRules"`,
		"SecRuleScript /tmp/x.lua":                                       `"SecRuleScript"`,
		"SecAuditLog /etc/cron.d/x":                                      `"SecAuditLog": the edge writes no files`,
		"SecDebugLog /tmp/modsec_debug.log":                              "writes no files",
		"SecAuditLogStorageDir /tmp":                                     `"SecAuditLogStorageDir"`,
		"SecUploadDir /tmp":                                              `"SecUploadDir"`,
		"SecUploadKeepFiles On":                                          "use Off",
		"SecGeoLookupDb /x":                                              `"SecGeoLookupDb"`,
		"SecHttpBlKey abcdefghijkl":                                      `"SecHttpBlKey"`,
		"SecDataset x `\n1\n`":                                           `"SecDataset"`,
		"SecIgnoreRuleCompilationErrors On":                              `"SecIgnoreRuleCompilationErrors"`,
		"SecRxPreFilter On":                                              `"SecRxPreFilter"`,
		"SecRequestBodyLimit 1000000000":                                 "from 1 to 13107200",
		"SecRequestBodyLimit 0":                                          "from 1",
		"SecResponseBodyLimit 999999999":                                 "from 1 to 1048576",
		"SecArgumentsLimit 100000":                                       "from 1 to 1000",
		"SecRuleEngine Maybe":                                            "DetectionOnly",
		"SecRuleEngine":                                                  "no value",
		"Nonsense":                                                       `"Nonsense"`,
		"SecRule ARGS":                                                   "VARIABLES",
		"SecRule ARGS @rx":                                               "VARIABLES",
		`SecRule ARGS "@rx x`:                                            "VARIABLES",
		`SecRule ARGS "@rx x" id:1`:                                      "VARIABLES",
		`SecRule ENV "@rx x" "id:1"`:                                     "ENV",
		`SecRule ARGS|!env:PATH "@rx x" "id:1"`:                          "ENV",
		`SecRule ARGS "@rx x" "id:1,msg:'%{ENV.PATH}'"`:                  "ENV",
		`SecRule FILES_TMPNAMES "@inspectFile /bin/sh" "id:1"`:           "@inspectFile",
		`SecRule ARGS "!@inspectFile /bin/sh" "id:1"`:                    "@inspectFile",
		`SecRule ARGS "@pmFromFile /etc/passwd" "id:1"`:                  "@pmFromFile",
		`SecRule ARGS "@pmf sql-errors.data" "id:1"`:                     "@pmf",
		`SecRule REMOTE_ADDR "@ipMatchFromFile /x" "id:1"`:               "@ipMatchFromFile",
		`SecRule REMOTE_ADDR "@rbl a.example" "id:1"`:                    "@rbl",
		`SecRule REMOTE_ADDR "@geoLookup" "id:1"`:                        "@geoLookup",
		`SecRule XML "@validateSchema /x" "id:1"`:                        "@validateSchema",
		`SecRule ARGS "@rx x" "id:1,exec:/bin/sh"`:                       `"exec"`,
		`SecRule ARGS "@rx x" "id:1, EXEC : /bin/sh"`:                    `"exec"`,
		`SecRule ARGS "@rx x" "id:1,setenv:PATH=/tmp"`:                   `"setenv"`,
		`SecRule ARGS "@rx x" "id:1,msg:'a,b',setenv:PATH=/tmp"`:         `"setenv"`,
		`SecRule ARGS "@rx x" "id:1,msg:'a\',setenv:PATH=/tmp"`:          "not closed",
		`SecRule ARGS "@rx x" "id:1,initcol:ip=1"`:                       `"initcol"`,
		`SecRule ARGS "@rx x" "id:1,ctl:requestBodyLimit=9999"`:          `"requestbodylimit"`,
		`SecRule ARGS "@rx x" "id:1,ctl:debugLogLevel=9"`:                `"debugloglevel"`,
		`SecRule ARGS "@rx x" "id:1,ctl:auditEngine=On"`:                 `"auditengine"`,
		`SecAction "id:1,exec:/bin/sh"`:                                  `"exec"`,
		`SecAction "'id:1,setenv:PATH=/tmp'"`:                            "not supported",
		`SecDefaultAction "phase:1,pass,setenv:PATH=/tmp"`:               `"setenv"`,
		`SecRuleUpdateActionById 942100 "pass,setenv:PATH=/tmp"`:         `"setenv"`,
		`SecRuleUpdateTargetById 942100 "ENV:PATH"`:                      "ENV",
		"SecRule ARGS \"@rx x\" \"id:1\" \\":                             "backslash",
		"SecMarker x\x00y":                                               "control character",
		"SecMarker " + strings.Repeat("x", MaxDirectiveLine):             "bytes",
		strings.Repeat("#", MaxDirectiveBytes+1):                         "bytes",
		strings.Repeat("SecMarker a\n", 3) + "SecMarker b\nX y":          `line 5: "X"`,
		strings.Repeat("SecAction \"id:1,pass\"\n", MaxDirectiveRules+1): "more than 200 rules",
		strings.Repeat("SecRule A \\\n \"@rx x\"\n", 3) + "SecLua x y":   `line 7: "SecLua"`,
	} {
		if _, err := ParseDirectives(text); err == nil || !strings.Contains(err.Error(), fragment) {
			t.Errorf("%.100s: %v, want %s", text, err, fragment)
		}
	}
}

// TestDirectives: directives are read into the order in which they take effect.
func TestDirectives(t *testing.T) {
	list, err := ParseDirectives(`
# usual
SecRuleRemoveById 942100
secruleengine on
SecAuditLog /dev/stdout
SecAuditEngine RelevantOnly
Include /etc/nginx/owasp-modsecurity-crs/nginx-modsecurity.conf
SecRequestBodyLimit 1000
SecRule ARGS|!ARGS:x \
	# within
	"@rx a\"b" \
	"id:1,phase:2,deny,msg:'a, b: c',ctl:ruleRemoveById=5,t:none"
Include @owasp_crs
Include @recommended`)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, directive := range list {
		switch directive.Set {
		case IncludedCoreRules:
			got = append(got, "core")
		case IncludedRecommended:
			got = append(got, "recommended")
		default:
			got = append(got, directive.Text)
		}
	}
	want := []string{
		"secruleengine on", "core", "SecRequestBodyLimit 1000",
		`SecRule ARGS|!ARGS:x "@rx a\"b" "id:1,phase:2,deny,msg:'a, b: c',ctl:ruleRemoveById=5,t:none"`, "recommended", "SecRuleRemoveById 942100",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if list[2].Number != 1000 {
		t.Errorf("the limit is %d", list[2].Number)
	}
}

// FuzzDirectives: no text makes the parser panic, and directives that are accepted are
// read in the same way again.
func FuzzDirectives(f *testing.F) {
	f.Add("SecRuleEngine On\nInclude @owasp_crs")
	f.Add(`SecRule ARGS "@rx a\"b" "id:1,phase:2,deny,msg:'a, b'"`)
	f.Add("SecRule \\\n ARGS \"!@rx x\" \\\n \"id:1\"")
	f.Fuzz(func(t *testing.T, text string) {
		list, err := ParseDirectives(text)
		if err != nil {
			return
		}
		for _, directive := range list {
			if directive.Set != NotIncluded {
				continue
			}
			again, err := ParseDirectives(directive.Text)
			if err != nil || len(again) != 1 || again[0].Text != directive.Text {
				t.Fatalf("%q is read again as %+v, %v", directive.Text, again, err)
			}
		}
	})
}

// TestLongestDirectives: text of exactly the limit is read.
func TestLongestDirectives(t *testing.T) {
	if _, err := ParseDirectives(strings.Repeat("\n", MaxDirectiveBytes)); err != nil {
		t.Error(err)
	}
	if _, err := ParseDirectives(strings.Repeat("\n", MaxDirectiveBytes+1)); err == nil {
		t.Error("one byte more is read")
	}
}
