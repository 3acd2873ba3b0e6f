package waf_test

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	coreruleset "github.com/corazawaf/coraza-coreruleset/v4"
	"github.com/corazawaf/coraza-coreruleset/v4/tests"
	"github.com/corazawaf/coraza/v3"
	corazahttp "github.com/corazawaf/coraza/v3/http"
	"github.com/corazawaf/coraza/v3/types"
	"go.yaml.in/yaml/v3"

	"slipway.dev/slipway/internal/must"
)

// testSettings are those that the tests of the Core Rule Set need: all of its rules, which
// only report.
const testSettings = `
SecDefaultAction "phase:3,log,auditlog,pass"
SecDefaultAction "phase:4,log,auditlog,pass"
SecAction "id:900005,phase:1,nolog,pass,ctl:ruleEngine=DetectionOnly,ctl:ruleRemoveById=910000,\
  setvar:tx.blocking_paranoia_level=4,setvar:tx.crs_validate_utf8_encoding=1,setvar:tx.arg_name_length=100,\
  setvar:tx.arg_length=400,setvar:tx.total_arg_length=64000,setvar:tx.max_num_args=255,\
  setvar:tx.max_file_size=64100,setvar:tx.combined_file_sizes=65535,setvar:tx.reporting_level=4"
`

// stage is one request of a test of the Core Rule Set.
type stage struct {
	name  string
	Input struct {
		Method       *string   `yaml:"method"`
		URI          *string   `yaml:"uri"`
		Version      *string   `yaml:"version"`
		Headers      yaml.Node `yaml:"headers"`
		Data         *string   `yaml:"data"`
		Encoded      string    `yaml:"encoded_request"`
		Autocomplete *bool     `yaml:"autocomplete_headers"`
	} `yaml:"input"`
	Output struct {
		Log struct {
			Expect   []int `yaml:"expect_ids"`
			NoExpect []int `yaml:"no_expect_ids"`
		} `yaml:"log"`
	} `yaml:"output"`
}

// readStages reads the tests that the module of the Core Rule Set has.
func readStages(t *testing.T) []stage {
	t.Helper()
	var stages []stage
	must.Do(t, fs.WalkDir(tests.FS, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".yaml") {
			return err
		}
		var file struct {
			Rule  int `yaml:"rule_id"`
			Tests []struct {
				ID     int     `yaml:"test_id"`
				Stages []stage `yaml:"stages"`
			} `yaml:"tests"`
		}
		text, err := fs.ReadFile(tests.FS, path)
		if err == nil {
			err = yaml.Unmarshal(text, &file)
		}
		for _, test := range file.Tests {
			for i, stage := range test.Stages {
				stage.name = fmt.Sprintf("%d-%d/%d", file.Rule, test.ID, i)
				stages = append(stages, stage)
			}
		}
		return err
	}))
	return stages
}

// repeated is the one template in the data of the tests.
var repeated = regexp.MustCompile(`\{\{ "(.)" \| repeat ([0-9]+) \}\}`)

// request returns the bytes of a stage, as the runner of these tests sends them.
func (s *stage) request() []byte {
	if s.Input.Encoded != "" {
		raw, _ := base64.StdEncoding.DecodeString(strings.ReplaceAll(s.Input.Encoded, "\n", ""))
		return raw
	}
	get := func(value *string, otherwise string) string {
		if value == nil {
			return otherwise
		}
		return *value
	}
	var lines []string
	names := map[string]string{}
	for i := 0; i+1 < len(s.Input.Headers.Content); i += 2 {
		name, value := s.Input.Headers.Content[i].Value, s.Input.Headers.Content[i+1].Value
		names[strings.ToLower(name)] = value
		lines = append(lines, name+": "+value)
	}
	data := repeated.ReplaceAllStringFunc(get(s.Input.Data, ""), func(text string) string {
		parts := repeated.FindStringSubmatch(text)
		count, _ := strconv.Atoi(parts[2])
		return strings.Repeat(parts[1], count)
	})
	if s.Input.Autocomplete == nil || *s.Input.Autocomplete {
		if _, given := names["connection"]; !given {
			lines = append(lines, "Connection: close")
		}
		if data != "" {
			contentType := cmp.Or(names["content-type"], "application/x-www-form-urlencoded")
			if names["content-type"] == "" {
				lines = append(lines, "Content-Type: "+contentType)
			}
			data = encoded(contentType, data)
		}
		if _, given := names["content-length"]; !given && (data != "" || get(s.Input.Method, "GET") == "POST") {
			lines = append(lines, "Content-Length: "+strconv.Itoa(len(data)))
		}
	}
	head := get(s.Input.Method, "GET") + " " + get(s.Input.URI, "/") + " " + get(s.Input.Version, "HTTP/1.1") + "\r\n"
	return []byte(head + strings.Join(append(lines, "", ""), "\r\n") + data)
}

// encoded encodes a form that is not, as the runner does.
func encoded(contentType, data string) string {
	if !strings.Contains(contentType, "application/x-www-form-urlencoded") {
		return data
	}
	if plain, err := url.QueryUnescape(data); err == nil && plain != data {
		return data
	}
	if values, err := url.ParseQuery(data); err == nil {
		return values.Encode()
	}
	return data
}

// reflect responds as the backend of these tests does: with what the body orders.
func reflect(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	var wanted struct {
		Status      int               `json:"status"`
		Headers     map[string]string `json:"headers"`
		Body        string            `json:"body"`
		EncodedBody string            `json:"encodedBody"`
	}
	w.Header().Set("Content-Type", "text/plain")
	if r.URL.Path != "/reflect" || json.Unmarshal(body, &wanted) != nil {
		return
	}
	for name, value := range wanted.Headers {
		w.Header().Set(name, value)
	}
	text := []byte(wanted.Body)
	if wanted.EncodedBody != "" {
		text, _ = base64.StdEncoding.DecodeString(wanted.EncodedBody)
	}
	w.WriteHeader(cmp.Or(wanted.Status, 200))
	w.Write(text)
}

// alone is Coraza in a server of the standard library.
type alone struct {
	address string
	mu      sync.Mutex
	matched map[int]bool
	handled bool
	over    chan struct{}
}

func startAlone(t *testing.T) *alone {
	t.Helper()
	a := &alone{matched: map[int]bool{}, over: make(chan struct{}, 10_000)}
	rules := must.Get(coraza.NewWAF(coraza.NewWAFConfig().WithRootFS(coreruleset.FS).WithErrorCallback(a.match).WithDirectives(
		"Include @coraza.conf-recommended\nSecRuleEngine On\n" + testSettings + "Include @crs-setup.conf.example\nInclude @owasp_crs/*.conf\nSecAuditEngine Off")))(t)
	inner := corazahttp.WrapHandler(rules, http.HandlerFunc(reflect))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a.mu.Lock()
		a.handled = true
		a.mu.Unlock()
		inner.ServeHTTP(w, r)
		a.over <- struct{}{}
	}))
	t.Cleanup(server.Close)
	a.address = server.Listener.Addr().String()
	return a
}

func (a *alone) match(rule types.MatchedRule) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.matched[rule.Rule().ID()] = true
}

// take returns the rules of the request that is over, and whether it reached the rules.
func (a *alone) take() ([]int, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	ids, handled := slices.Sorted(maps.Keys(a.matched)), a.handled
	a.matched, a.handled = map[int]bool{}, false
	return ids, handled
}

// take returns the rules of the request that is over, and whether it reached the rules.
func (f *firewall) take() ([]int, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	seen := f.seen
	f.seen = nil
	f.log.Reset()
	if len(seen) == 0 {
		return nil, false
	}
	ids := slices.Clone(seen[0])
	slices.Sort(ids)
	return slices.Compact(ids), true
}

// lateOutcome is how long a server may take to give up a request whose client is gone.
const lateOutcome = 2 * time.Second

// drain empties a channel of requests that are over. After a request without a response it
// waits for that one, whose end the client has not seen.
func drain(over chan struct{}, status int) {
	if status == 0 {
		select {
		case <-over:
		case <-time.After(lateOutcome):
		}
	}
	for len(over) > 0 {
		<-over
	}
}

// exchange sends the bytes of a request and waits until the server is done with it, which
// it is when it closes the connection. It returns the status, 0 for none.
func exchange(t *testing.T, address string, request []byte) int {
	t.Helper()
	conn := must.Get(net.DialTimeout("tcp", address, 5*time.Second))(t)
	defer conn.Close()
	must.Do(t, conn.SetDeadline(time.Now().Add(3*time.Second)))
	conn.Write(request)
	reader := bufio.NewReader(conn)
	method, _, _ := bytes.Cut(request, []byte(" "))
	response, err := http.ReadResponse(reader, &http.Request{Method: string(method)})
	if err != nil {
		return 0
	}
	io.Copy(io.Discard, response.Body)
	conn.(*net.TCPConn).CloseWrite()
	io.Copy(io.Discard, reader)
	return response.StatusCode
}

// TestRegression: for the tests of the Core Rule Set, the rules that match in the edge are
// those that match in Coraza alone. Without WAF_REGRESSION a sample is sent.
func TestRegression(t *testing.T) {
	stages := readStages(t)
	if len(stages) < 4000 {
		t.Fatalf("there are %d tests", len(stages))
	}
	step := 40
	if os.Getenv("WAF_REGRESSION") != "" {
		step = 1
	}
	reference := startAlone(t)
	edge := start(t, "Include @recommended\nSecRuleEngine On\n"+testSettings+"Include @owasp_crs", reflect)
	var sent, same, strict, lenient, silent, expected, unexpected int
	for i := 0; i < len(stages); i += step {
		s := &stages[i]
		sent++
		request := s.request()
		statusAlone, statusEdge := exchange(t, reference.address, request), exchange(t, edge.Address, request)
		drain(reference.over, statusAlone)
		drain(edge.over, statusEdge)
		want, handled := reference.take()
		got, inspected := edge.take()
		switch {
		case !inspected && statusEdge/100 != 2:
			// The edge refuses what can be read in two ways before there is a rule.
			strict++
			continue
		case !handled:
			lenient++
			continue
		case !slices.Equal(got, want):
			t.Errorf("%s: the rules %v match in the edge (%d), and %v in Coraza alone (%d)\n%.400q", s.name, less(got, want), statusEdge, less(want, got), statusAlone, request)
			continue
		}
		same++
		if statusEdge == 0 {
			silent++
		}
		if contains(got, s.Output.Log.Expect) && !containsAny(got, s.Output.Log.NoExpect) {
			expected++
		} else {
			unexpected++
			t.Logf("%s: both match %v, want %v and not %v", s.name, got, s.Output.Log.Expect, s.Output.Log.NoExpect)
		}
	}
	t.Logf("%d requests: %d with the same rules (%d as the tests expect, %d not), %d refused by the edge before, %d by net/http alone; %d without a response", sent, same, expected, unexpected, strict, lenient, silent)
	if same < sent*9/10 {
		t.Errorf("only %d of %d requests were compared", same, sent)
	}
}

// less returns what is in a and not in b.
func less(a, b []int) []int {
	return slices.DeleteFunc(slices.Clone(a), func(id int) bool { return slices.Contains(b, id) })
}

func contains(ids, wanted []int) bool { return len(less(wanted, ids)) == 0 }

func containsAny(ids, unwanted []int) bool { return len(less(unwanted, ids)) < len(unwanted) }
