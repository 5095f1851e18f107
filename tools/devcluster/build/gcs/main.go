// A server of Google Cloud Storage for tests: fake-gcs-server, in memory, on the address that is its argument.
//
// Its uploads are those of the JSON API. Clients of the XML API store an object with a PUT to its name, and make that conditional
// with a header; such a request is passed on as the upload that means the same. The JSON API creates buckets.
package main

import (
	"encoding/json"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strconv"
	"strings"

	"github.com/fsouza/fake-gcs-server/fakestorage"
)

func main() {
	server, err := fakestorage.NewServerWithOptions(fakestorage.Options{NoListener: true, PublicHost: os.Args[1]})
	if err != nil {
		log.Fatal(err)
	}
	inner := server.HTTPHandler()
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		bucket, object, isObject := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
		if r.Method == http.MethodPut && isObject && object != "" {
			upload := url.Values{"uploadType": {"media"}, "name": {object}}
			if generation := r.Header.Get("x-goog-if-generation-match"); generation != "" {
				upload.Set("ifGenerationMatch", generation)
			}
			r.Method, r.RequestURI = http.MethodPost, ""
			r.URL = &url.URL{Path: "/upload/storage/v1/b/" + bucket + "/o", RawQuery: upload.Encode()}
			answer := httptest.NewRecorder()
			inner.ServeHTTP(answer, r)
			var stored struct{ Etag string }
			if json.Unmarshal(answer.Body.Bytes(), &stored) == nil && stored.Etag != "" {
				w.Header().Set("ETag", strconv.Quote(stored.Etag))
			}
			w.WriteHeader(answer.Code)
			w.Write(answer.Body.Bytes())
			return
		}
		inner.ServeHTTP(w, r)
	})
	log.Fatal(http.ListenAndServe(os.Args[1], handler))
}
