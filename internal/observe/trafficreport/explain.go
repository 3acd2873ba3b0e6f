package trafficreport

// Explanation is how one request is routed. It is the part of the edge's explain
// response that other programs read.
type Explanation struct {
	Request struct {
		EntryPoint string `json:"entryPoint"`
		Listener   string `json:"listener"` // instead of EntryPoint
		TLS        bool   `json:"tls"`
		Method     string `json:"method"`
		Host       string `json:"host"`
		Path       string `json:"path"`
		Query      string `json:"query"`
		Rewritten  bool   `json:"rewritten"`
	} `json:"request"`
	Refusal *struct {
		Status  int    `json:"status"`
		Message string `json:"message"`
	} `json:"refusal"`
	// Status is that of a local response; 0 means that a backend responds.
	Status  int      `json:"status"`
	Rule    *RouteID `json:"rule"`
	Reason  string   `json:"reason"`
	Message string   `json:"message"`
	Steps   []struct {
		ID       *RouteID `json:"id"`
		Name     string   `json:"name"`
		Decision string   `json:"verdict"`
		Why      string   `json:"why"`
	} `json:"steps"`
	Policies []struct {
		Name string `json:"name"`
	} `json:"policies"`
	Backends []struct {
		ID        BackendID `json:"id"`
		Weight    uint32    `json:"weight"`
		Broken    string    `json:"broken"`
		Endpoints []struct {
			Address  string `json:"address"`
			State    string `json:"state"`
			Health   string `json:"health"`
			InFlight int64  `json:"inFlight"`
		} `json:"endpoints"`
	} `json:"backends"`
	// Text is the whole explanation as text.
	Text string `json:"text"`
}
