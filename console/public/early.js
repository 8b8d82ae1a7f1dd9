// Requests what a page shows first while its code is still loading.
{
  const [path = "", query] = location.hash.replace(/^#\/?/, "").split("?", 2);
  const [page, family, run] = path.split("/");
  const wanted = ["/api/inbox"];
  if (!page && !query) wanted.push("/api/board?limit=100&group=attention&sort=activity&closed=seen");
  if (page === "run" && !/^\.\.?$/.test(run) && !/[?&]at=/.test(`?${query}`)) wanted.push(`/api/runs/${family}/${run}`);
  window.early = new Map(wanted.map((each) => [each, fetch(each)]));
}
