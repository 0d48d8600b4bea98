// The search, the switch between light and dark, and the list of pages on narrow screens. Nothing is loaded from
// elsewhere; the words of the search come with the first key.
"use strict";
(() => {
    const up = document.body.dataset.up, root = document.documentElement;
    const field = document.getElementById("search"), found = document.getElementById("found");
    const dark = () => root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;

    document.getElementById("theme").addEventListener("click", () => {
        root.dataset.theme = dark() ? "light" : "dark";
        try { localStorage.setItem("kiln-theme", root.dataset.theme); } catch (e) { /* kept for this page alone */ }
    });
    const menu = document.getElementById("menu"), pages = document.getElementById("pages");
    menu.addEventListener("click", () => menu.setAttribute("aria-expanded", pages.classList.toggle("open")));
    const here = pages.querySelector("[aria-current]");
    if (here) pages.scrollTop = here.offsetTop - pages.clientHeight / 2;

    const load = () => new Promise((done) => {
        if (window.kilnWords) return done();
        const script = document.createElement("script");
        script.src = up + "assets/words.js";
        script.onload = done;
        document.head.append(script);
    });

    // How well an entry [page, address, section, text] fits: names first, then titles, then the text; 0: not at all.
    const score = (entry, words, whole) => {
        const page = entry[0].toLowerCase(), section = entry[2].toLowerCase(), text = entry[3].toLowerCase();
        if (page === whole || page === "kiln_" + whole) return 1000;
        let sum = section.includes(whole) ? 20 : text.includes(whole) ? 8 : 0;
        for (const word of words) {
            const one = page.startsWith("kiln_") ? (page.includes(word) ? 40 - Math.min(30, page.length - word.length) : 0)
                : (page.includes(word) ? 30 : 0);
            const best = Math.max(one, section.includes(word) ? 25 : 0, text.includes(word) ? 5 : 0);
            if (!best) return 0;
            sum += best;
        }
        return sum;
    };
    const show = async () => {
        const whole = field.value.trim().toLowerCase(), words = whole.split(/\s+/).filter(Boolean);
        await load();
        const hits = words.length ? window.kilnWords.map((e) => [score(e, words, whole), e]).filter((h) => h[0])
            .sort((a, b) => b[0] - a[0]).slice(0, 20) : [];
        found.replaceChildren(...hits.map(([, e]) => {
            const item = document.createElement("li"), link = document.createElement("a");
            const small = document.createElement("small");
            link.href = up + e[1];
            link.textContent = e[2] ? e[0] + " › " + e[2] : e[0];
            small.textContent = e[3];
            link.append(small);
            item.append(link);
            return item;
        }));
        found.hidden = !words.length;
        if (words.length && !hits.length) found.textContent = "Nothing found";
    };
    const move = (step) => {
        const links = [...found.querySelectorAll("a")], at = links.findIndex((a) => a.classList.contains("at"));
        if (!links.length) return;
        if (at >= 0) links[at].classList.remove("at");
        const next = links[(at + step + links.length) % links.length];
        next.classList.add("at");
        next.scrollIntoView({block: "nearest"});
    };
    field.addEventListener("input", show);
    field.addEventListener("keydown", (event) => {
        if (event.key === "ArrowDown" || event.key === "ArrowUp") {
            event.preventDefault();
            move(event.key === "ArrowDown" ? 1 : -1);
        } else if (event.key === "Enter") {
            const link = found.querySelector("a.at") || found.querySelector("a");
            if (link) location.href = link.href;
        } else if (event.key === "Escape") {
            field.value = "";
            found.hidden = true;
        }
    });
    document.addEventListener("keydown", (event) => {
        if (event.key === "/" && document.activeElement !== field) {
            event.preventDefault();
            field.focus();
        }
    });
    document.addEventListener("click", (event) => { if (!event.target.closest(".search")) found.hidden = true; });
    found.addEventListener("click", () => { found.hidden = true; });
})();
